# SPDX-License-Identifier: BSD-2-Clause
"""A call of which all is settled but where its arrays lie: a plan, the library's structs with all numbers and layouts,
and what its arrays are like. It serves any number of calls that differ in addresses alone, and any threads at once."""
import ctypes as c
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import errors
from ._library import opencl
from .device import Device

_READ_WRITE, _READ_ONLY, _USE_HOST_PTR, _MAP_READ = 1, 4, 8, 1


class Slot(NamedTuple):
    """One array of a call."""
    name: str
    said: str  # its name in messages
    size: int  # bytes from the first element to the last one's end; 0: it has none
    item: int  # bytes of an element, or of a block of elements
    block: int
    written: bool
    part: int  # which of the structs has it
    is_tensor: bool  # else a buffer, and an offset beside it where may_begin_inside
    may_begin_inside: bool

    def place(self, distance: int) -> int:
        """The number of the first element so many bytes behind a buffer's begin."""
        return distance // self.item * self.block


class Group(NamedTuple):
    """A span of memory that is one buffer, and the arrays in it, by number."""
    begin: int
    end: int
    members: List[int]


class Bound:
    """parts: the library's struct of the call, and those that it points to (scales of K and V, values of further
    features; None where there are none)."""
    def __init__(self, enqueue: Any, plan: Any, parts: Sequence[Any], slots: Sequence[Slot]) -> None:
        self._enqueue, self._plan, self.slots = enqueue, plan, tuple(slots)
        self._parts = tuple(parts)
        self._workspace: int = plan.workspace_bytes(parts[0].shape)

    def _new_parts(self) -> List[Any]:
        """Structs of one call, whose pointers are to each other."""
        copies: List[Any] = [None if part is None else type(part).from_buffer_copy(part) for part in self._parts]
        args, scales, more = copies
        if scales is not None:
            args.score.kv_scales = c.addressof(scales)
        if more is not None:
            args.score.more = c.addressof(more)
        return [args, args.score, scales, more]

    def enqueue(self,
                device: Device,
                places: Sequence[Tuple[int, int]],
                queue: int,
                waits: Tuple[int, ...] = (),
                first_event: Optional[c.c_void_p] = None,
                numbers: Optional[Dict[str, int]] = None) -> int:
        """Hands the call to the library, and answers with its event. places: of each array the cl_mem, and the element
        of it that the array begins with. `numbers` are values of scores that differ from those that were settled."""
        parts = self._new_parts()
        for slot, (buffer, offset) in zip(self.slots, places):
            target = parts[slot.part]
            if slot.is_tensor:
                tensor = getattr(target, slot.name)
                tensor.buffer, tensor.layout.offset = buffer, offset
                continue
            setattr(target, slot.name, buffer)
            if slot.may_begin_inside:
                setattr(target, slot.name + '_offset', offset)
            elif offset:
                raise errors.ArgumentError(f'{slot.said} begins inside its buffer: it must begin at its start')
        args, score = parts[:2]
        for name, number in (numbers or {}).items():
            setattr(score, name, number)
        workspace = device.buffer(self._workspace) if self._workspace else None
        if workspace:
            args.workspace, args.workspace_bytes = workspace.handle, self._workspace
        if first_event is not None:
            args.first_event = c.addressof(first_event)
        events = (c.c_void_p * len(waits))(*waits) if waits else None
        event = c.c_void_p()
        self._enqueue(self._plan.handle, queue, c.byref(args), len(waits), events, c.byref(event))
        return event.value or 0  # OpenCL keeps the workspace while commands use it

    def run(self, device: Device, addresses: Sequence[int], numbers: Optional[Dict[str, int]] = None) -> None:
        """Computes on arrays of the host, used where they lie."""
        places: List[Tuple[int, int]] = [(0, 0)] * len(self.slots)
        buffers, written = [], []
        for begin, end, members in self._groups(addresses):
            writes = any(self.slots[i].written for i in members)
            flags = (_READ_WRITE if writes else _READ_ONLY) | _USE_HOST_PTR
            buffer = device.buffer(end - begin, flags, begin) if end > begin else device.buffer(1)
            buffers.append(buffer)
            if writes and end > begin:
                written.append((buffer.handle, end - begin))
            for i in members:
                places[i] = buffer.handle, self.slots[i].place(addresses[i] - begin) if end > begin else 0
        event = c.c_void_p(self.enqueue(device, places, device.queue, numbers=numbers))
        try:
            for handle, size in written:  # only behind this the host is sure to see what was written
                place = opencl.clEnqueueMapBuffer(device.queue, handle, 0, _MAP_READ, 0, size, 0, None, None)
                opencl.clEnqueueUnmapMemObject(device.queue, handle, place, 0, None, None)
            opencl.clFinish(device.queue)
            opencl.clWaitForEvents(1, c.byref(event))  # which says whether the commands succeeded
        finally:
            opencl.clReleaseEvent(event)

    def _groups(self, addresses: Sequence[int]) -> List[Group]:
        """OpenCL wants no two buffers over the same memory. Arrays that are slices of one, such as Q, K and V of one
        product, are a buffer together."""
        slots = self.slots
        groups: List[Group] = []
        end = 0
        for begin, i in sorted(zip(addresses, range(len(slots)))):
            slot = slots[i]
            if not slot.size:
                groups.insert(0, Group(0, 0, [i]))
                continue
            if begin >= end:
                end = begin + slot.size
                groups.append(Group(begin, end, [i]))
                continue
            last = groups[-1]
            if (begin - last.begin) % slot.item or _is_bare(slot) or _is_bare(
                    slots[last.members[0]]):
                raise errors.ArgumentError(
                    f'{slot.said} and {slots[last.members[-1]].said} share memory: copy one of them')
            end = max(end, begin + slot.size)
            groups[-1] = Group(last.begin, end, [*last.members, i])
        return groups


def _is_bare(slot: Slot) -> bool:
    return not (slot.is_tensor or slot.may_begin_inside)
