# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's threads while OpenCL's work.

After its loops PyTorch's threads of OpenMP wait for more in a loop (GNU's: 300,000 rounds, milliseconds), on the cores
that the device's threads want. Before a call that takes longer than threads take to begin, they are ended; PyTorch's
next loop begins them again. CLATTN_OPENMP=keep leaves them alone."""
import ctypes as c
import functools
import os
from typing import Any, Callable, Optional

import torch

from . import errors, threads
from .device import Device

# Products of a call: some 0.3 ms of one core. To end a thread and to begin it again takes less than 0.1 ms.
_MANY = 2**24

_SOFT = 1  # omp_pause_soft: what the program has set is kept


@functools.lru_cache(maxsize=None)
def _pause() -> Optional[Callable[[int], int]]:
    """omp_pause_resource_all() of PyTorch's own OpenMP, or None: Windows and macOS have other names of the library, and
    before OpenMP 5.0 there was no such function."""
    wanted = os.environ.get('CLATTN_OPENMP', 'pause')
    if wanted not in ('pause', 'keep'):
        raise errors.ArgumentError(f"CLATTN_OPENMP is {wanted!r}: 'pause' or 'keep'")
    if wanted == 'keep' or not hasattr(os, 'RTLD_NOLOAD'):
        return None
    path = os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cpu.so')
    try:
        return c.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY).omp_pause_resource_all
    except (OSError, AttributeError):
        return None


def rest(device: Device, q: Any, k: Any, layout: str) -> bool:
    """Ends the threads of the calling thread's loops before attention of these tensors on a device that wants the same
    cores, and has that device's threads placed; whether it ended them."""
    if not device.shares_memory:
        return False
    pause, placed = _pause(), threads.wanted()
    n_kv = k.shape[-2 if layout in ('bhnd', 'hnd') else -3]
    if torch.get_num_threads() == 1 or q.numel() * n_kv < _MANY:
        return False
    if placed:
        threads.place()
    return pause is not None and pause(_SOFT) == 0
