# SPDX-License-Identifier: BSD-2-Clause
"""New arrays of the kind that the caller's are of, and what travels with them: queues and events."""
import sys
from typing import Any, Optional, Sequence, Tuple

from . import errors, views

_NUMPY = {'fp32': 'float32', 'fp16': 'float16'}


def _numpy_dtype(like: Any, dtype: str) -> Any:
    """The dtype in which the caller has bf16 (ml_dtypes' or uint16); else NumPy's own."""
    import numpy
    if dtype in _NUMPY:
        return numpy.dtype(_NUMPY[dtype])
    if like.dtype.name in ('bfloat16', 'uint16'):
        return like.dtype
    ml_dtypes = sys.modules.get('ml_dtypes')
    return numpy.dtype(ml_dtypes.bfloat16 if ml_dtypes else numpy.uint16)


def new(like: Any, shape: Sequence[int], dtype: str, queue: Any = None, zero: bool = False) -> Any:
    """A dense array of the kind of `like`; its elements are 0 or undefined."""
    if views.is_torch(like):
        import torch
        kind = {'fp32': torch.float32, 'fp16': torch.float16, 'bf16': torch.bfloat16}[dtype]
        return (torch.zeros if zero else torch.empty)(tuple(shape), dtype=kind)
    if views.is_pyopencl(like):
        import pyopencl.array
        make = pyopencl.array.zeros if zero else pyopencl.array.empty
        return make(queue, tuple(shape), _numpy_dtype(like, dtype), allocator=like.allocator)
    import numpy
    base = like if isinstance(like, numpy.ndarray) else numpy.from_dlpack(like)
    return (numpy.zeros if zero else numpy.empty)(tuple(shape), _numpy_dtype(base, dtype))


def queue_of(arrays: Sequence[Any], queue: Any) -> Any:
    """The pyopencl queue of a call: the one that was named, else the one that the arrays carry. None without arrays of
    pyopencl."""
    found = [x for x in arrays if views.is_pyopencl(x)]
    if not found:
        if queue is not None:
            raise errors.ArgumentError('queue is given, and no argument is an array of pyopencl: leave it out')
        return None
    queue = queue or next((x.queue for x in found if x.queue is not None), None)
    if queue is None:
        raise errors.ArgumentError('queue is None, and no array has one: name a pyopencl.CommandQueue')
    return queue


def events_of(arrays: Sequence[Any], wait_for: Sequence[Any]) -> Tuple[int, ...]:
    """The events that a call waits for: those given, and those that the arrays carry."""
    carried = [event for x in arrays if views.is_pyopencl(x) for event in x.events]
    return tuple(event.int_ptr for event in [*wait_for, *carried])


def event_of(handle: Optional[int]) -> Any:
    """The pyopencl.Event that takes over a cl_event."""
    import pyopencl
    return pyopencl.Event.from_int_ptr(handle or 0, retain=False)


def hand_event(outputs: Sequence[Any], event: Optional[int]) -> Any:
    """Gives the outputs the event of the call, and answers with it."""
    made = event_of(event)
    for x in outputs:
        x.add_event(made)
    return made
