# SPDX-License-Identifier: BSD-2-Clause
"""What calls raise. Every message names the argument, its value, and what would be right."""
import re
from typing import Any, Mapping

from . import _abi


class Error(RuntimeError):
    """The library or OpenCL failed. `status` is the number that it answered with."""
    def __init__(self, message: str, status: int = _abi.CLATTN_INVALID_ARGUMENT):
        super().__init__(message)
        self.status = status


class ArgumentError(Error, ValueError):
    """A value, shape or layout that cannot be."""


class DtypeError(Error, TypeError):
    """An array of a kind or an element type that cannot be."""
    def __init__(self, message: str, status: int = _abi.CLATTN_INVALID_TYPE):
        super().__init__(message, status)


_KINDS = {
    _abi.CLATTN_INVALID_ARGUMENT: ArgumentError, _abi.CLATTN_INVALID_SHAPE: ArgumentError,
    _abi.CLATTN_INVALID_LAYOUT: ArgumentError, _abi.CLATTN_BUFFER_TOO_SMALL: ArgumentError,
    _abi.CLATTN_WORKSPACE_TOO_SMALL: ArgumentError, _abi.CLATTN_INVALID_TYPE: DtypeError
}


class named:
    """Within it, messages have the caller's names of arguments: those of one letter wherever they stand, others where a
    message begins."""
    def __init__(self, **names: str) -> None:
        self.names = names

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, raised: Any, trace: Any) -> None:
        if isinstance(raised, (ArgumentError, DtypeError)):
            raised.args = (_renamed(str(raised), self.names), )


def _renamed(message: str, names: Mapping[str, str]) -> str:
    return re.sub(r'\b(?<![\w."\'])[a-z_]+\b', lambda found: _name(found, names), message)


def _name(found: 're.Match[str]', names: Mapping[str, str]) -> str:
    word = found.group()
    return names.get(word, word) if len(word) == 1 or found.start() == 0 else word


def of_status(status: int, message: str) -> Error:
    """The exception of a status."""
    return _KINDS.get(status, Error)(message, status)
