# SPDX-License-Identifier: BSD-2-Clause
"""Where a CPU driver's threads run, beside those of PyTorch.

Between PyTorch's loops and attention the work goes from some threads to others that sleep. Linux wakes several of them
on one processor at times, and moves them only after a millisecond or more (tests/peers/woken_threads.c). Before the
first long attention of PyTorch's tensors each of the driver's threads gets a processor of its own, if they are as many
as the process has.
CLATTN_AFFINITY=keep, or PoCL's own POCL_AFFINITY of any value, leaves them where the system puts them."""
import contextlib
import functools
import os
from typing import Iterator, Set, Tuple

from . import errors

_TASKS = '/proc/self/task'

# Threads that came while the drivers began: no driver says which are its own.
_began: Tuple[int, ...] = ()


def _tasks() -> Set[int]:
    return set(map(int, os.listdir(_TASKS))) if os.path.isdir(_TASKS) else set()


@contextlib.contextmanager
def beginning() -> Iterator[None]:
    """Around what may make drivers begin, and their threads."""
    global _began
    before = _tasks()
    yield
    _began = _began or tuple(sorted(_tasks() - before))


@functools.lru_cache(maxsize=None)
def wanted() -> bool:
    """Whether the environment lets them be placed."""
    choice = os.environ.get('CLATTN_AFFINITY', 'place')
    if choice not in ('place', 'keep'):
        raise errors.ArgumentError(f"CLATTN_AFFINITY is {choice!r}: 'place' or 'keep'")
    return choice == 'place' and 'POCL_AFFINITY' not in os.environ and hasattr(os, 'sched_setaffinity')


@functools.lru_cache(maxsize=None)
def place() -> bool:
    """Gives each thread its processor, once; whether it did."""
    if not wanted():
        return False
    processors = sorted(os.sched_getaffinity(0))
    if len(_began) != len(processors):
        return False
    try:
        for thread, processor in zip(_began, processors):
            os.sched_setaffinity(thread, {processor})
    except OSError:  # a thread has ended, or the system does not let us: all are as before
        for thread in _tasks().intersection(_began):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, processors)
        return False
    return True
