# SPDX-License-Identifier: BSD-2-Clause
"""The shared libraries: clattn's, which the package brings, and the system's OpenCL loader."""
import ctypes as c
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from . import _abi, errors


def _load_clattn() -> c.CDLL:
    path = os.environ.get('CLATTN_LIBRARY') or os.path.join(os.path.dirname(__file__), 'libclattn.so')
    try:
        library = c.CDLL(path)
    except OSError as cause:
        raise ImportError(f'{path} does not load: {cause}. It needs the OpenCL loader (Debian: ocl-icd-libopencl1) '
                          'and a driver (for a CPU: pocl-opencl-icd)') from cause
    for name, (result, parameters) in _abi.FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(f'{path} has no {name}: it is older than this package')
        function.restype, function.argtypes = result, parameters
        if name in _abi.STATUS:
            function.errcheck = _raise_status
    return library


def _raise_status(status: int, function: Any, arguments: Any) -> int:
    if status:
        text = clattn.clattn_error_message().decode(errors='replace')
        raise errors.of_status(status, text or clattn.clattn_status_name(status).decode())
    return status


_P, _UINT, _ULONG, _SIZE = c.c_void_p, c.c_uint32, c.c_uint64, c.c_size_t

# Parameters of OpenCL's functions. Those that make an object answer with it, and with a code behind the last parameter.
_CALLS: Dict[str, List[Any]] = {
    'clGetPlatformIDs': [_UINT, _P, _P], 'clGetDeviceIDs': [_P, _ULONG, _UINT, _P,
                                                            _P], 'clGetPlatformInfo': [_P, _UINT, _SIZE, _P, _P],
    'clGetDeviceInfo': [_P, _UINT, _SIZE, _P, _P], 'clGetCommandQueueInfo': [_P, _UINT, _SIZE, _P,
                                                                             _P], 'clRetainContext': [_P],
    'clReleaseContext': [_P], 'clReleaseCommandQueue': [_P], 'clReleaseMemObject': [_P], 'clReleaseEvent': [_P],
    'clWaitForEvents': [_UINT, _P], 'clFinish': [_P], 'clEnqueueUnmapMemObject': [_P, _P, _P, _UINT, _P, _P]
}
_MAKERS: Dict[str, List[Any]] = {
    'clCreateContext': [_P, _UINT, _P, _P, _P, _P], 'clCreateCommandQueue': [_P, _P, _ULONG, _P],
    'clCreateBuffer': [_P, _ULONG, _SIZE, _P,
                       _P], 'clEnqueueMapBuffer': [_P, _P, _UINT, _ULONG, _SIZE, _SIZE, _UINT, _P, _P, _P]
}


class _OpenCL:
    """OpenCL's functions; each raises where it fails."""
    def __init__(self) -> None:
        try:
            library = c.CDLL('libOpenCL.so.1')
        except OSError as cause:
            raise ImportError(
                f'there is no OpenCL loader ({cause}): install one (Debian: ocl-icd-libopencl1)') from cause
        for name, parameters in _CALLS.items():
            setattr(self, name, self._checked(library, name, parameters))
        for name, parameters in _MAKERS.items():
            setattr(self, name, self._maker(library, name, parameters))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            ...

    @staticmethod
    def _fail(name: str, code: int) -> None:
        said = clattn.clattn_status_name(code).decode()
        raise errors.Error(f'{name}: {said} ({code})', code)

    def _checked(self, library: c.CDLL, name: str, parameters: list) -> Callable[..., None]:
        function = getattr(library, name)
        function.restype, function.argtypes = c.c_int, parameters

        def call(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                self._fail(name, code)

        return call

    def _maker(self, library: c.CDLL, name: str, parameters: list) -> Callable[..., int]:
        function = getattr(library, name)
        function.restype, function.argtypes = c.c_void_p, parameters

        def make(*arguments: Any) -> int:
            code = c.c_int(0)
            made = function(*arguments, c.byref(code))
            if code.value:
                self._fail(name, code.value)
            return made

        return make


clattn = _load_clattn()
opencl = _OpenCL()


def version() -> str:
    """The version of the library that is loaded."""
    return clattn.clattn_version().decode()
