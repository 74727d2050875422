# SPDX-License-Identifier: BSD-2-Clause
"""Calls through the library's host level: keys in pieces, a limit of device memory, and functions that watch."""
import ctypes as c
from typing import Any, Callable, List, Optional

from . import errors

_PROGRESS = c.CFUNCTYPE(None, c.c_void_p, c.c_int64, c.c_int64)
_CANCEL = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64, c.c_int64)


class Pieces:
    """What a call says of them. An exception of `progress` or `cancel` ends the call, and is raised behind it."""
    def __init__(self, kv_chunk: Optional[int], progress: Optional[Callable[[int, int], Any]],
                 cancel: Optional[Callable[[int, int], Any]], max_device_bytes: int) -> None:
        for name, value in (('kv_chunk', kv_chunk or 0), ('max_device_bytes', max_device_bytes)):
            if value < 0:
                raise errors.ArgumentError(f'{name} is {value}: it must not be negative')
        for name, function in (('progress', progress), ('cancel', cancel)):
            if function is not None and not callable(function):
                raise errors.ArgumentError(f'{name} is {function!r}: it is a function of (keys done, keys), or None')
        self.kv_chunk, self.max_device_bytes = kv_chunk or 0, max_device_bytes
        self.progress, self.cancel = progress, cancel
        self._raised: List[BaseException] = []
        self._kept: List[Any] = []

    def __bool__(self) -> bool:
        return bool(self.given())

    def given(self) -> str:
        """The first of them that is given, with its value; empty where none is."""
        for name in ('kv_chunk', 'progress', 'cancel', 'max_device_bytes'):
            if getattr(self, name):
                return f'{name} is {getattr(self, name)}'
        return ''

    def _guarded(self, function: Optional[Callable[[int, int], Any]], done: int, keys: int) -> bool:
        """What it answers; True from the first exception on."""
        try:
            return bool(self._raised or (function and function(done, keys)))
        except BaseException as raised:  # it cannot pass through the library
            self._raised.append(raised)
            return True

    def fill(self, args: Any) -> None:
        args.kv_chunk, args.max_device_bytes = self.kv_chunk, self.max_device_bytes
        if self.progress or self.cancel:
            self._kept = [
                _PROGRESS(lambda _, done, keys: self._guarded(self.progress, done, keys) and None),
                _CANCEL(lambda _, done, keys: self._guarded(self.cancel, done, keys))
            ]
            args.progress, args.cancel = (c.cast(function, c.c_void_p) for function in self._kept)

    def raise_again(self) -> None:
        """The exception that ended the call, if one did."""
        if self._raised:
            raise self._raised[0]
