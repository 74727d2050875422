# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's threads while OpenCL's work.

After its loops PyTorch's threads of OpenMP wait for more in a loop (GNU's: 300,000 rounds, milliseconds), on the cores
that the device's threads want. For a call that takes longer than threads take to wake, they get a loop of their own, in
which they sleep until the call has ended. CLATTN_OPENMP=keep leaves them alone."""
import contextlib
import ctypes as c
import functools
import os
from typing import Any, Iterator, NamedTuple, Optional

import torch

from . import errors, threads
from .device import Device

# Products of a call: some 0.3 ms of one core. To put a thread to sleep and to wake it takes less than 0.1 ms.
_MANY = 2**24

_SEMAPHORE_BYTES = 64  # more than a sem_t of any Linux


class _Loops(NamedTuple):
    """PyTorch's own OpenMP, and what its threads sleep in."""
    begin: Any
    end: Any
    size: Any
    semaphore: Any
    sleep: Any
    wake: Any


@functools.lru_cache(maxsize=None)
def _loops() -> Optional[_Loops]:
    """None: Windows and macOS have other names of the library, and not each OpenMP has GNU's functions."""
    wanted = os.environ.get('CLATTN_OPENMP', 'pause')
    if wanted not in ('pause', 'keep'):
        raise errors.ArgumentError(f"CLATTN_OPENMP is {wanted!r}: 'pause' or 'keep'")
    if wanted == 'keep' or not hasattr(os, 'RTLD_NOLOAD'):
        return None
    path = os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cpu.so')
    try:
        library, system = c.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), c.CDLL(None)
        found = _Loops(library.GOMP_parallel_start, library.GOMP_parallel_end, library.omp_get_num_threads,
                       system.sem_init, c.cast(system.sem_wait, c.c_void_p), system.sem_post)
    except (OSError, AttributeError):
        return None
    found.begin.argtypes, found.begin.restype = [c.c_void_p, c.c_void_p, c.c_uint], None
    found.end.argtypes, found.end.restype = [], None
    found.semaphore.argtypes, found.wake.argtypes = [c.c_void_p, c.c_int, c.c_uint], [c.c_void_p]
    return found


@contextlib.contextmanager
def _asleep(loops: _Loops) -> Iterator[None]:
    """All threads of the calling thread's loops but itself wait for a semaphore meanwhile."""
    semaphore = c.create_string_buffer(_SEMAPHORE_BYTES)
    loops.semaphore(semaphore, 0, 0)
    loops.begin(loops.sleep, semaphore, 0)
    try:
        yield
    finally:
        for _ in range(loops.size() - 1):
            loops.wake(semaphore)
        loops.end()


def resting(device: Device, q: Any, k: Any, layout: str) -> Any:
    """A context for attention of these tensors: on a device that wants the same cores, and in a call that is long, the
    threads of the calling thread's loops sleep meanwhile, and the device's threads are placed."""
    if not device.shares_memory:
        return contextlib.nullcontext()
    loops, placed = _loops(), threads.wanted()
    n_kv = k.shape[-2 if layout in ('bhnd', 'hnd') else -3]
    if torch.get_num_threads() == 1 or q.numel() * n_kv < _MANY:
        return contextlib.nullcontext()
    if placed:
        threads.place()
    return contextlib.nullcontext() if loops is None else _asleep(loops)
