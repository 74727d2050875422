# SPDX-License-Identifier: BSD-2-Clause
"""One call of the library: from named views to its structs, and through the level that suits where the arrays lie."""
import ctypes as c
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _abi, errors
from ._library import clattn, opencl
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

_READ_WRITE, _READ_ONLY, _USE_HOST_PTR, _COPY_HOST_PTR, _MAP_READ = 1, 4, 8, 32, 1


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
        if self.kind.host is None or (device.shares_memory and not self.pieces):
            self._run_in_place(device)
        else:
            self._run_copied(device)
        return None

    def _enqueue(self, device: Device, places: Dict[str, Tuple[int, int]], queue: int, waits: Tuple[int, ...]) -> int:
        """Hands the call to the library, and answers with its event. places: of each tensor the cl_mem, and the element
        of it that the tensor begins with."""
        made = device.appender(self.append_params, self.problem) if self.append_params is not None else \
            device.plan(self.problem, tuple(sorted(self.texts.items())))
        args = self.kind.args(shape=self.shape, **self.numbers)
        scales, more = _abi.clattn_kv_scales(), _abi.clattn_score_more()
        self._fill_score(args, more)
        for name, view in self.tensors.items():
            target = self._target(args, scales, more, name)
            buffer, offset = places[name]
            if name in _BARE or name in _OFFSET:
                self._set_bare(target, view, name, places[name])
            else:
                setattr(target, name,
                        _abi.clattn_tensor(buffer=buffer, layout=_layout(name, view, offset), memory=view.memory))
        size = made.workspace_bytes(self.shape)
        workspace = device.buffer(size) if size else None
        if workspace:
            args.workspace, args.workspace_bytes = workspace.handle, size
        if self.wants_first:
            args.first_event = c.addressof(self.first_event)
        events = (c.c_void_p * len(waits))(*waits) if waits else None
        event = c.c_void_p()
        self.kind.enqueue(made.handle, queue, c.byref(args), len(waits), events, c.byref(event))
        return event.value or 0  # OpenCL keeps the workspace while commands use it

    @staticmethod
    def _set_bare(target: Any, view: View, name: str, place: Tuple[int, int]) -> None:
        """A buffer that is no clattn_tensor."""
        setattr(target, name, place[0])
        if name in _OFFSET:
            setattr(target, name + '_offset', place[1])
        if hasattr(type(target), name + '_memory'):
            setattr(target, name + '_memory', view.memory)
        elif view.memory != _abi.CLATTN_BUFFER:
            raise errors.ArgumentError(
                f'{view.name} is in shared virtual memory: it must be in a cl_mem or on the host')

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
        places, copies = {}, []
        for name, view in self.tensors.items():
            if view.buffer is not None:
                places[name] = view.buffer, view.place(0)
            elif name in _MAY_BE_COPIED and name not in self.outputs:
                copies.append(device.buffer(view.size, _READ_ONLY | _COPY_HOST_PTR, view.address))
                places[name] = copies[-1].handle, 0
            else:
                raise errors.ArgumentError(
                    f'{view.name} is on the host, others are on a device: they must lie together')
            if name in _BARE and places[name][1]:
                raise errors.ArgumentError(f'{view.name} begins inside its buffer: it must begin at its start')
        return self._enqueue(device, places, queue, waits)

    def _run_in_place(self, device: Device) -> None:
        """Arrays of the host, used where they lie."""
        places, buffers, written = {}, [], []
        for begin, end, names in _groups(self.tensors, self.outputs):
            writes = any(name in self.outputs for name in names)
            flags = (_READ_WRITE if writes else _READ_ONLY) | _USE_HOST_PTR
            buffers.append(device.buffer(end - begin, flags, begin) if end > begin else device.buffer(1))
            if writes and end > begin:
                written.append((buffers[-1].handle, end - begin))
            for name in names:
                view = self.tensors[name]
                places[name] = buffers[-1].handle, view.place(begin) if end > begin else 0
        event = c.c_void_p(self._enqueue(device, places, device.queue, ()))
        try:
            for handle, size in written:  # only behind this the host is sure to see what was written
                place = opencl.clEnqueueMapBuffer(device.queue, handle, 0, _MAP_READ, 0, size, 0, None, None)
                opencl.clEnqueueUnmapMemObject(device.queue, handle, place, 0, None, None)
            opencl.clFinish(device.queue)
            opencl.clWaitForEvents(1, c.byref(event))  # which says whether the commands succeeded
        finally:
            opencl.clReleaseEvent(event)

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


def _groups(tensors: Dict[str, View], outputs: List[str]) -> List[Tuple[int, int, list]]:
    """Spans of memory that are one buffer each, since OpenCL wants no two over the same memory: [begin, end, names].
    Arrays that are slices of one, such as Q, K and V of one product, are a buffer together."""
    spans = sorted((view.address, view.address + view.size, name) for name, view in tensors.items()
                   if not view.empty)
    groups: List[Tuple[int, int, list]] = [(0, 0, [name]) for name, view in tensors.items() if view.empty]
    for begin, end, name in spans:
        last = groups[-1] if groups else (0, 0, [])
        joins = begin < last[1] and (begin - last[0]) % tensors[name].item == 0
        if begin < last[1] and (not joins or name in _BARE or last[2][0] in _BARE):
            raise errors.ArgumentError(
                f'{tensors[name].name} and {tensors[last[2][-1]].name} share memory: copy one of them')
        if joins:
            groups[-1] = (last[0], max(end, last[1]), last[2] + [name])
        else:
            groups.append((begin, end, [name]))
    return groups


def device_of(queue: Any, device: Optional[Device]) -> Device:
    """The Device of a pyopencl queue."""
    found = of_queue(queue.int_ptr)
    if device is not None and device is not found:
        raise errors.ArgumentError(f'device is {device!r}, and the queue is of {found!r}: leave the device out')
    return found
