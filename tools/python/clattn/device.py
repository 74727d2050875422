# SPDX-License-Identifier: BSD-2-Clause
"""Devices: the library's hold on them, their queues, and the plans that were made for them."""
import collections
import ctypes as c
import os
import sys
import threading
from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Tuple

from . import _abi, errors, threads
from ._library import clattn, opencl

_ALL_DEVICES, _DEVICE_TYPE, _DEVICE_NAME, _PLATFORM_NAME, _TYPE_CPU = 0xFFFFFFFF, 0x1000, 0x102B, 0x0902, 2
_QUEUE_CONTEXT, _QUEUE_DEVICE, _DEVICE_NOT_FOUND, _NO_PLATFORM = 0x1090, 0x1091, -1, -1001
_READ_WRITE = 1

# Plans that a device keeps; a service with more kinds of problems compiles the oldest anew (or reads it from the disk).
PLANS = 64

# Calls of PyTorch's tensors that a device keeps: of each shape some 2 KB, and its plan.
CALLS = 64

_LOG = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)


class DeviceInfo(NamedTuple):
    """A device that is there: Device(platform, device) opens it."""
    platform: int
    device: int
    platform_name: str
    device_name: str
    is_cpu: bool


def _handles(count_and_list: Callable[..., Any], *before: Any) -> List[int]:
    count = c.c_uint32(0)
    try:
        count_and_list(*before, 0, None, c.byref(count))
    except errors.Error as cause:
        if cause.status in (_DEVICE_NOT_FOUND, _NO_PLATFORM):
            return []
        raise
    handles = (c.c_void_p * count.value)()
    count_and_list(*before, count, handles, None)
    return list(handles)


def _text(ask: Callable[..., Any], handle: int, what: int) -> str:
    size = c.c_size_t(0)
    ask(handle, what, 0, None, c.byref(size))
    text = c.create_string_buffer(size.value + 1)
    ask(handle, what, size, text, None)
    return text.value.decode(errors='replace').strip()


def _number(ask: Callable[..., Any], handle: int, what: int) -> int:
    number = c.c_uint64(0)
    ask(handle, what, 8, c.byref(number), None)
    return number.value


def _all() -> List[Tuple[DeviceInfo, int]]:
    found = []
    with threads.beginning():
        platforms = [(platform, _handles(opencl.clGetDeviceIDs, platform, _ALL_DEVICES))
                     for platform in _handles(opencl.clGetPlatformIDs)]
    for p, (platform, handles) in enumerate(platforms):
        name = _text(opencl.clGetPlatformInfo, platform, _PLATFORM_NAME)
        for d, device in enumerate(handles):
            is_cpu = bool(_number(opencl.clGetDeviceInfo, device, _DEVICE_TYPE) & _TYPE_CPU)
            found.append((DeviceInfo(p, d, name, _text(opencl.clGetDeviceInfo, device, _DEVICE_NAME), is_cpu), device))
    return found


def devices() -> List[DeviceInfo]:
    """All devices of all OpenCL drivers."""
    return [info for info, _ in _all()]


def _say(log: Callable[[int, str], Any], level: int, text: bytes) -> None:
    try:
        log(level, text.decode(errors='replace'))
    except Exception as raised:  # it cannot pass through the library
        sys.excepthook(type(raised), raised, raised.__traceback__)


class Device:
    """One OpenCL device with its compiled plans. Any number of threads may use it at once.

    Device(platform, device) opens one of devices(); default_device() and of_queue() are for those who have none in
    hand.

    cache_directory     where compiled programs are kept; '': nowhere; None: as include/clattn/cache.h says
    tuning              a file of `clattn tune`; None: no records but the built-in ones
    log                 called with (level, text), by any thread, with what the library says: level 1 is an error, 2 a
                        warning, 3 what it does, 4 more; log_level is the highest that is wanted
    """
    def __init__(self,
                 platform: int = 0,
                 device: int = 0,
                 *,
                 cache_directory: Optional[str] = None,
                 tuning: Optional[str] = None,
                 log: Optional[Callable[[int, str], Any]] = None,
                 log_level: int = _abi.CLATTN_LOG_WARNING):
        for info, handle in _all():
            if (info.platform, info.device) == (platform, device):
                break
        else:
            raise errors.ArgumentError(f'platform {platform}, device {device}: there is none; clattn.devices() lists '
                                       f'{len(devices())}')
        params = _abi.clattn_context_params()
        if cache_directory is not None:
            params.cache_directory = os.fsencode(cache_directory)
        if log is not None:
            self._log = _LOG(lambda _, level, text: _say(log, level, text))
            params.log = _abi.clattn_log(function=c.cast(self._log, c.c_void_p), level=log_level)
        records = c.c_void_p()
        if tuning is not None:
            clattn.clattn_tuning_load(c.byref(records), os.fsencode(tuning))
            params.tuning = records
        handles = (c.c_void_p * 1)(handle)
        try:
            self._open(opencl.clCreateContext(None, 1, handles, None, None), handle, params)
        finally:
            clattn.clattn_tuning_destroy(c.byref(records))

    def _open(self, cl_context: int, cl_device: int, params: Optional[_abi.clattn_context_params] = None) -> None:
        """Takes over a reference to the cl_context."""
        params = params or _abi.clattn_context_params()
        self._lock = threading.Lock()
        self._plans: Dict[bytes, Any] = collections.OrderedDict()
        self._bound: Dict[Hashable, Any] = {}
        self._cl_context, self._handle, self._host, self._queue = cl_context, c.c_void_p(), c.c_void_p(), 0
        params.context, params.device = cl_context, cl_device
        clattn.clattn_context_create(c.byref(self._handle), c.byref(params))
        self._queue = opencl.clCreateCommandQueue(cl_context, cl_device, 0)
        known = _abi.clattn_capabilities.from_address(clattn.clattn_context_capabilities(self._handle))
        self.name: str = known.device_name.decode(errors='replace')
        #: Whether the device works in the host's own memory: arrays are then used where they lie.
        self.shares_memory: bool = bool(known.unified_memory) and known.type == _abi.CLATTN_DEVICE_CPU

    def __repr__(self) -> str:
        return f'<clattn.Device {self.name!r}>'

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        for plan in getattr(self, '_plans', {}).values():
            plan.close()
        if getattr(self, '_host', None):
            clattn.clattn_host_destroy(c.byref(self._host))
        if getattr(self, '_handle', None):
            clattn.clattn_context_destroy(c.byref(self._handle))
        if getattr(self, '_queue', None):
            opencl.clReleaseCommandQueue(self._queue)
        if getattr(self, '_cl_context', None):
            opencl.clReleaseContext(self._cl_context)

    def plan(self, problem: _abi.clattn_problem, texts: Tuple[Tuple[str, bytes], ...]) -> 'Plan':
        """The plan of a problem, compiled at most once. `texts` are those that the problem points to."""
        key = bytes(problem) if not texts else bytes(_without_texts(problem)) + repr(texts).encode()
        return self._kept(key, lambda: Plan(self, problem))

    def appender(self, params: _abi.clattn_append_params, problem: _abi.clattn_problem) -> 'Appender':
        """What appends to a cache of such a problem, compiled at most once."""
        key = b'append' + bytes(params) + bytes(problem)
        return self._kept(key, lambda: Appender(self, params, problem))

    def _kept(self, key: bytes, make: Callable[[], Any]) -> Any:
        with self._lock:
            found = self._plans.pop(key, None) or make()
            self._plans[key] = found
            if len(self._plans) > PLANS:
                self._plans.pop(next(iter(self._plans)))
        return found

    def bound(self, key: Hashable) -> Any:
        """The call that keep() was given last by this key; None: it has none."""
        return self._bound.get(key)

    def keep(self, key: Hashable, bound: Any) -> None:
        """Keeps a call by all that it depends on but the places of its arrays; the oldest ones go."""
        with self._lock:
            self._bound[key] = bound
            if len(self._bound) > CALLS:
                self._bound.pop(next(iter(self._bound)))

    def host(self) -> c.c_void_p:
        """The library's host level; its caller holds the device's lock."""
        if not self._host:
            params = _abi.clattn_host_params(context=self._handle)
            clattn.clattn_host_create(c.byref(self._host), c.byref(params))
        return self._host

    def buffer(self, size: int, flags: int = _READ_WRITE, address: Optional[int] = None) -> 'Buffer':
        return Buffer(opencl.clCreateBuffer(self._cl_context, flags, max(size, 1), address))

    @property
    def lock(self) -> threading.Lock:
        return self._lock

    @property
    def queue(self) -> int:
        """The device's own cl_command_queue, in order."""
        return self._queue


_TEXTS = ('score_mod', 'score_mod_grad', 'mask_mod', 'skeleton', 'knobs')


def _without_texts(problem: _abi.clattn_problem) -> _abi.clattn_problem:
    same = _abi.clattn_problem.from_buffer_copy(problem)
    for name in _TEXTS:
        setattr(same, name, None)
    return same


class Plan:
    """A compiled plan (clattn_plan)."""
    def __init__(self, device: Device, problem: _abi.clattn_problem):
        self.handle = c.c_void_p()
        clattn.clattn_plan_create(c.byref(self.handle), device._handle, c.byref(problem))

    def workspace_bytes(self, shape: _abi.clattn_shape) -> int:
        size = c.c_size_t(0)
        clattn.clattn_plan_workspace_bytes(self.handle, c.byref(shape), c.byref(size))
        return size.value

    def info(self) -> _abi.clattn_plan_info:
        info = _abi.clattn_plan_info()
        clattn.clattn_plan_get_info(self.handle, c.byref(info))
        return info

    def close(self) -> None:
        if self.handle and not sys.is_finalizing():
            clattn.clattn_plan_destroy(c.byref(self.handle))

    __del__ = close


class Appender:
    """What appends rows to a cache (clattn_appender)."""
    def __init__(self, device: Device, params: _abi.clattn_append_params, problem: _abi.clattn_problem):
        self.handle = c.c_void_p()
        params = _abi.clattn_append_params.from_buffer_copy(params)
        params.problem = c.addressof(problem)
        clattn.clattn_appender_create(c.byref(self.handle), device._handle, c.byref(params))

    def workspace_bytes(self, shape: _abi.clattn_shape) -> int:
        return 0

    def close(self) -> None:
        if self.handle and not sys.is_finalizing():
            clattn.clattn_appender_destroy(c.byref(self.handle))

    __del__ = close


class Buffer:
    """A cl_mem that is released with this object. OpenCL keeps it until the commands that use it have ended."""
    def __init__(self, handle: int):
        self.handle = handle

    def __del__(self) -> None:
        if not sys.is_finalizing():
            opencl.clReleaseMemObject(self.handle)


_default: Optional[Device] = None
_of_contexts: Dict[Tuple[int, int], Device] = {}
_guard = threading.Lock()


def _choose() -> Device:
    named = os.environ.get('CLATTN_DEVICE')
    if named:
        try:
            platform, device = map(int, named.split(':'))
        except ValueError:
            raise errors.ArgumentError(f'CLATTN_DEVICE is "{named}": it is PLATFORM:DEVICE, such as 0:0') from None
        return Device(platform, device)
    found = devices()
    if not found:
        raise errors.Error(
            'there is no OpenCL device: install the driver of one (for a CPU on Debian: pocl-opencl-icd)')
    best = next((info for info in found if info.is_cpu), found[0])
    return Device(best.platform, best.device)


def default_device() -> Device:
    """What computes where no device is named: CLATTN_DEVICE (PLATFORM:DEVICE) of the environment; else the first CPU,
    which takes arrays where they lie; else the first device."""
    global _default
    with _guard:
        if _default is None:
            _default = _choose()
        return _default


def set_default_device(device: Optional[Device]) -> None:
    """Names the device for calls that name none; None: as default_device() says."""
    global _default
    if not isinstance(device, (Device, type(None))):
        raise errors.ArgumentError(f'device is {device!r}: it must be a clattn.Device, such as clattn.Device(0, 0)')
    with _guard:
        _default = device


def of_queue(queue: int) -> Device:
    """The Device of a cl_command_queue, by its address (pyopencl: queue.int_ptr)."""
    context = _number(opencl.clGetCommandQueueInfo, queue, _QUEUE_CONTEXT)
    handle = _number(opencl.clGetCommandQueueInfo, queue, _QUEUE_DEVICE)
    with _guard:
        if (context, handle) not in _of_contexts:
            opencl.clRetainContext(context)
            device = Device.__new__(Device)
            device._open(context, handle)
            _of_contexts[context, handle] = device
        return _of_contexts[context, handle]
