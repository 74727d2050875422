# SPDX-License-Identifier: BSD-2-Clause
"""One call of the library: from named views to its structs, and through the level that suits where the arrays lie."""
import ctypes as c
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _abi, errors
from ._library import clattn
from .bound import Bound, Slot
from .device import Device, of_queue
from .views import View

# Which strides of a layout the dimensions of a tensor are; of all others, the whole of one dimension, dense.
_FOUR, _PACKED, _ROWS = ('batch', 'head', 'row', 'column'), ('head', 'row', 'column'), ('batch', 'head', 'row')
_AXES = {
    'alibi': ('batch', 'head'), 'bias': _FOUR, 'mask': _FOUR, 'block_mask': _FOUR, 'block_offsets': _ROWS,
    'pages': ('batch', 'row'), 'd_bias': _FOUR, 'positions': ('batch', 'row'), 'rope_cos': ('row', 'column'),
    'rope_sin': ('row', 'column'), 'd_lse': _ROWS, 'tree_mask': _FOUR
}
SCALES = ('k_scales', 'k_zeros', 'v_scales', 'v_zeros')
_DENSE = {'lse', 'm', 'l', 'key_lengths', 'cu_seqlens_q', 'cu_seqlens_kv', 'sinks', 'd_sinks', 'page_offsets'}
# A buffer and an offset beside it in place of a tensor.
_OFFSET = ('row_shifts', 'query_lengths', 'bias_slopes', 'rng_state')
_BARE = {'data': 'data_count', 'block_columns': 'block_count'}

# Of arrays on a device the small ones may be on the host.
_MAY_BE_COPIED = {
    'alibi', 'block_offsets', 'block_columns', 'pages', 'page_offsets', 'key_lengths', 'cu_seqlens_q', 'cu_seqlens_kv',
    'sinks', 'data', 'positions', 'rope_cos', 'rope_sin', 'tree_mask', *_OFFSET, *SCALES, *_abi.SCORE_MORE
}

_READ_ONLY, _COPY_HOST_PTR = 4, 32


def _axes_of_more(name: str) -> Optional[Tuple[str, ...]]:
    """Of a later feature: batch and heads by their names, and what else there is as rows and columns."""
    _, dimensions = _abi.SCORE_MORE.get(name, (0, None))
    if dimensions is None:
        return None
    others = iter(('row', 'column'))
    return tuple({'batch': 'batch', 'heads': 'head'}.get(size) or next(others) for size in dimensions)


def _layout(name: str, view: View, offset: int) -> _abi.clattn_layout:
    if name in _DENSE:
        return _abi.clattn_layout(offset=offset)
    axes = _AXES.get(name) or _axes_of_more(name) or (_FOUR if len(view.shape) == 4 else _PACKED)
    axes = axes[-len(view.shape):]  # of packed sequences there is no batch
    return _abi.clattn_layout(offset=offset, strided=1, **dict(zip(axes, view.strides)))


class _Kind(NamedTuple):
    """What the library has for one kind of call: structs and functions, of the host level where there is one."""
    args: Any
    enqueue: Any
    host_args: Any = None
    host: Any = None


_KINDS = {
    'forward': _Kind(_abi.clattn_forward_args, clattn.clattn_forward_enqueue, _abi.clattn_host_forward_args,
                     clattn.clattn_host_forward),
    'backward': _Kind(_abi.clattn_backward_args, clattn.clattn_backward_enqueue, _abi.clattn_host_backward_args,
                      clattn.clattn_host_backward), 'append': _Kind(_abi.clattn_append_args,
                                                                    clattn.clattn_append_enqueue)
}


class Call:
    """What is asked for. `problem`, `numbers` and `score` take numbers, `tensors` the views, all by the names of the
    library's structs; `outputs` names the tensors that are written."""
    def __init__(self, kind: str = 'forward') -> None:
        self.problem = _abi.clattn_problem()
        if kind == 'backward':
            setattr(self.problem, 'pass', _abi.CLATTN_BACKWARD)
        self.kind, self.backward = _KINDS[kind], kind == 'backward'
        self.append_params: Any = _abi.clattn_append_params() if kind == 'append' else None
        self.texts: Dict[str, bytes] = {}
        self.shape = _abi.clattn_shape()
        self.numbers: Dict[str, Any] = {}
        self.score: Dict[str, Any] = {}
        self.tensors: Dict[str, View] = {}
        self.outputs: List[str] = []
        self.pieces: Any = None
        self.wants_first, self.first_event = False, c.c_void_p()

    def text(self, name: str, value: Optional[str]) -> None:
        """One of the problem's texts: functions of the caller's, a skeleton, knobs."""
        if value:
            self.texts[name] = value.encode()
            setattr(self.problem, name, self.texts[name])

    def run(self, device: Device, queue: Optional[int] = None, wait_for: Tuple[int, ...] = ()) -> Optional[int]:
        """Computes, and answers with the event (cl_event) of the last command where the arrays lie in cl_mem
        objects."""
        if any(view.buffer is not None for view in self.tensors.values()):
            return self._run_buffers(device, queue or device.queue, wait_for)
        if self.runs_in_place(device):
            self.bind(device).run(device, [view.address for view in self.tensors.values()])
        else:
            self._run_copied(device)
        return None

    def runs_in_place(self, device: Device) -> bool:
        """Whether arrays of the host are used where they lie."""
        return self.kind.host is None or (device.shares_memory and not self.pieces)

    def bind(self, device: Device) -> Bound:
        """The call with all but the places of its tensors, in their order."""
        made = device.appender(self.append_params, self.problem) if self.append_params is not None else \
            device.plan(self.problem, tuple(sorted(self.texts.items())))
        args = self.kind.args(shape=self.shape, **self.numbers)
        scales, more = _abi.clattn_kv_scales(), _abi.clattn_score_more()
        self._fill_score(args, more)
        slots = [self._slot(args, scales, more, name, view) for name, view in self.tensors.items()]
        used = scales if args.score.kv_scales else None, more if args.score.more else None
        return Bound(self.kind.enqueue, made, (args, *used), slots)

    def _slot(self, args: Any, scales: Any, more: Any, name: str, view: View) -> Slot:
        """The place of a tensor, whose layout is set."""
        target = self._target(args, scales, more, name)
        is_tensor = name not in _BARE and name not in _OFFSET
        if is_tensor:
            setattr(target, name, _abi.clattn_tensor(layout=_layout(name, view, 0), memory=view.memory))
        elif hasattr(type(target), name + '_memory'):
            setattr(target, name + '_memory', view.memory)
        elif view.memory != _abi.CLATTN_BUFFER:
            raise errors.ArgumentError(
                f'{view.name} is in shared virtual memory: it must be in a cl_mem or on the host')
        part = 0 if target is args else 2 if target is scales else 3 if target is more else 1
        return Slot(name, view.name, view.size, view.item, view.block, name in self.outputs, part, is_tensor,
                    name in _OFFSET)

    @staticmethod
    def _target(args: Any, scales: Any, more: Any, name: str) -> Any:
        """The struct that has a value: that of the call, one inside it, or one that this points to."""
        if name in SCALES:
            args.score.kv_scales = c.addressof(scales)
            return scales
        if more is not None and name in _abi.SCORE_MORE:
            args.score.more = c.addressof(more)
            return more
        return args if hasattr(type(args), name) else args.score

    def _fill_score(self, args: Any, more: Any) -> None:
        for name, value in self.score.items():
            setattr(self._target(args, None, more, name), name, value)

    def _run_buffers(self, device: Device, queue: int, waits: Tuple[int, ...]) -> int:
        """Arrays in cl_mem objects or shared virtual memory; small arrays of the host beside them are copied."""
        if self.pieces:
            raise errors.ArgumentError(f'{self.pieces.given()}: arrays on the device are there as a whole; '
                                       'leave it out')
        places, copies = [], []
        for name, view in self.tensors.items():
            if view.buffer is not None:
                places.append((view.buffer, view.place(0)))
            elif name in _MAY_BE_COPIED and name not in self.outputs:
                copies.append(device.buffer(view.size, _READ_ONLY | _COPY_HOST_PTR, view.address))
                places.append((copies[-1].handle, 0))
            else:
                raise errors.ArgumentError(
                    f'{view.name} is on the host, others are on a device: they must lie together')
        first = self.first_event if self.wants_first else None
        return self.bind(device).enqueue(device, places, queue, waits, first)

    def _run_copied(self, device: Device) -> None:
        """Arrays of the host, through the library's host level."""
        args = self.kind.host_args(shape=self.shape, **self.numbers)
        if self.pieces:
            self.pieces.fill(args)
        self._fill_score(args, None)
        scales = _abi.clattn_host_kv_scales()
        for name, view in self.tensors.items():
            target = self._target(args, scales, None, name)
            setattr(target, name, view.address)
            if name in _BARE:
                setattr(target, _BARE[name], view.shape[0])
            elif hasattr(type(target), name + '_layout'):
                setattr(target, name + '_layout', _layout(name, view, 0))
        with device.lock:
            try:
                self.kind.host(device.host(), c.byref(self.problem), c.byref(args))
            except errors.Error:
                if self.pieces:
                    self.pieces.raise_again()
                raise


def device_of(queue: Any, device: Optional[Device]) -> Device:
    """The Device of a pyopencl queue."""
    found = of_queue(queue.int_ptr)
    if device is not None and device is not found:
        raise errors.ArgumentError(f'device is {device!r}, and the queue is of {found!r}: leave the device out')
    return found
