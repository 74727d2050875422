# SPDX-License-Identifier: BSD-2-Clause
"""What arrays of any kind have in common: where their elements lie, of which type, in which strides. Nothing is copied
here but what no layout of the library describes (negative strides, elements that are not aligned)."""
import dataclasses
import math
import sys
from typing import Any, Optional, Sequence, Tuple

from . import _abi, errors

#: Bytes of an element, or of a block of elements.
SIZES = {
    'fp32': 4, 'fp16': 2, 'bf16': 2, 'int32': 4, 'uint64': 8, 'byte': 1, 'int8': 1, 'fp8_e4m3': 1, 'fp8_e5m2': 1,
    'int4': 1, 'q8_0': 34, 'q4_0': 18
}
#: Elements of a block, of types that have no elements by themselves.
BLOCKS = {'int4': 2, 'q8_0': 32, 'q4_0': 32}
DTYPES = {'fp32': _abi.CLATTN_FP32, 'fp16': _abi.CLATTN_FP16, 'bf16': _abi.CLATTN_BF16}
OPERAND_TYPES = {
    'fp32': _abi.CLATTN_AS_FP32, 'fp16': _abi.CLATTN_AS_FP16, 'bf16': _abi.CLATTN_AS_BF16, 'int8': _abi.CLATTN_AS_INT8,
    'fp8_e4m3': _abi.CLATTN_AS_FP8_E4M3, 'fp8_e5m2': _abi.CLATTN_AS_FP8_E5M2, 'int4': _abi.CLATTN_AS_INT4,
    'q8_0': _abi.CLATTN_AS_Q8_0, 'q4_0': _abi.CLATTN_AS_Q4_0
}

_NUMPY_NAMES = {
    'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16', 'uint16': 'bf16', 'int32': 'int32', 'bool': 'byte',
    'uint8': 'byte', 'int8': 'int8', 'uint64': 'uint64', 'float8_e4m3fn': 'fp8_e4m3', 'float8_e5m2': 'fp8_e5m2'
}
_TORCH_NAMES = {
    'torch.float32': 'fp32', 'torch.float16': 'fp16', 'torch.bfloat16': 'bf16', 'torch.int32': 'int32',
    'torch.bool': 'byte', 'torch.uint8': 'byte', 'torch.int8': 'int8', 'torch.float8_e4m3fn': 'fp8_e4m3',
    'torch.float8_e5m2': 'fp8_e5m2'
}
FLOATS, BYTES = ('fp32', 'fp16', 'bf16'), ('byte', )
#: What K and V may be.
KEYS = (*FLOATS, 'int8', 'fp8_e4m3', 'fp8_e5m2', *BLOCKS)
#: Of these, which need scales.
SCALED = ('int8', 'int4', 'fp8_e4m3', 'fp8_e5m2')


@dataclasses.dataclass(frozen=True)
class View:
    """Elements of an array: on the host at `address`, or from byte `address` on in `buffer`, a cl_mem or, as `memory`
    says, an address of shared virtual memory."""
    name: str
    dtype: str
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]  # in elements
    address: int
    buffer: Optional[int]
    source: Any  # keeps the memory alive
    memory: int = _abi.CLATTN_BUFFER

    @property
    def item(self) -> int:
        """Bytes of an element, or of a block of them: what the first one's place is a multiple of."""
        return SIZES[self.dtype]

    @property
    def block(self) -> int:
        """Elements that so many bytes hold."""
        return BLOCKS.get(self.dtype, 1)

    @property
    def size(self) -> int:
        """Bytes from the first element to the last one's end."""
        return -(-self.extent // self.block) * self.item

    def place(self, begin: int) -> int:
        """The number of the first element, counted from an address."""
        return (self.address - begin) // self.item * self.block

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    @property
    def extent(self) -> int:
        """Elements from the first to the last one's end."""
        return 0 if self.empty else 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def permute(self, *order: int) -> 'View':
        return dataclasses.replace(self,
                                   shape=tuple(self.shape[i] for i in order),
                                   strides=tuple(self.strides[i] for i in order))

    def lead(self, dims: int) -> 'View':
        """With dimensions of size 1 in front, up to so many."""
        more = dims - len(self.shape)
        return dataclasses.replace(self, shape=(1, ) * more + self.shape, strides=(0, ) * more + self.strides)

    def expand(self, shape: Sequence[int]) -> 'View':
        """Broadcast to a shape, as NumPy does."""
        view = self.lead(len(shape))
        if len(view.shape) != len(shape) or any(have not in (1, want) for have, want in zip(view.shape, shape)):
            raise errors.ArgumentError(f'{self.name} has shape {self.shape}: it must broadcast to {tuple(shape)}')
        strides = tuple(0 if have == 1 else stride for have, stride in zip(view.shape, view.strides))
        return dataclasses.replace(view, shape=tuple(shape), strides=strides)

    def require(self, dims: int, dtypes: Sequence[str], what: str) -> 'View':
        """This view, if it has so many dimensions and one of these types."""
        if self.dtype not in dtypes:
            raise errors.DtypeError(f'{self.name} is {self.dtype}: {what} it must be one of {", ".join(dtypes)}')
        if len(self.shape) != dims:
            raise errors.ArgumentError(f'{self.name} has shape {self.shape}: {what} it must have {dims} dimensions')
        return self


def is_torch(x: Any) -> bool:
    torch = sys.modules.get('torch')
    return torch is not None and isinstance(x, torch.Tensor)


def is_pyopencl(x: Any) -> bool:
    arrays = sys.modules.get('pyopencl.array')
    return arrays is not None and isinstance(x, arrays.Array)


def refuse_grad(named: Sequence[Tuple[str, Any]]) -> None:
    """Of functions that record no gradient."""
    for name, x in named:
        if is_torch(x) and x.requires_grad:
            import torch
            if torch.is_grad_enabled():
                raise errors.ArgumentError(f'{name} requires a gradient, which this function does not record: take '
                                           'clattn.torch.attention, or torch.no_grad() with attention_backward()')


def refuse_fp64(name: str, have: str) -> errors.DtypeError:
    return errors.DtypeError(f'{name} is {have}: clattn computes in fp32 and takes float32, float16 and bfloat16, no '
                             f'fp64; convert it ({name}.astype("float32"), or {name}.float() of PyTorch)')


def _dtype_of(name: str, have: str, names: dict) -> str:
    if have in names:
        return names[have]
    if have in ('float64', 'torch.float64'):
        raise refuse_fp64(name, have)
    raise errors.DtypeError(f'{name} is {have}: it must be one of {", ".join(names)}')


def normal(shape: Sequence[int], strides: Sequence[int]) -> Tuple[int, ...]:
    """The stride of a dimension of one element means nothing, and may be anything."""
    return tuple(0 if n <= 1 else s for n, s in zip(shape, strides))


def _of_numpy(x: Any, name: str, output: bool) -> View:
    import numpy
    dtype = _dtype_of(name, x.dtype.name, _NUMPY_NAMES)
    if not x.dtype.isnative:
        raise errors.DtypeError(f'{name} has the other byte order: convert it by {name}.astype({x.dtype.name})')
    described = all(s >= 0 and s % x.itemsize == 0 for n, s in zip(x.shape, x.strides) if n > 1)
    if not described or x.ctypes.data % x.itemsize:
        if output:
            raise errors.ArgumentError(f'{name} has strides of {x.strides} bytes: those of an output are multiples of '
                                       'the element, and not negative')
        x = numpy.ascontiguousarray(x)
    if output and not x.flags.writeable:
        raise errors.ArgumentError(f'{name} is read-only: an output must be writeable')
    strides = normal(x.shape, [s // x.itemsize for s in x.strides])
    return View(name, dtype, x.shape, strides, x.ctypes.data, None, x)


def refuse_device(name: str, device: str) -> errors.DtypeError:
    return errors.DtypeError(f'{name} is on the device "{device}": OpenCL has no way to memory that CUDA (or another '
                             'interface) has allocated, so that each call would go through the host. Take '
                             f'{name}.cpu(), or keep the data in pyopencl arrays')


def _of_torch(x: Any, name: str) -> View:
    if x.device.type != 'cpu':
        raise refuse_device(name, str(x.device))
    dtype = _dtype_of(name, str(x.dtype), _TORCH_NAMES)
    return View(name, dtype, tuple(x.shape), normal(x.shape, x.stride()), x.data_ptr(), None, x)


def _of_pyopencl(x: Any, name: str) -> View:
    dtype = _dtype_of(name, x.dtype.name, _NUMPY_NAMES)
    item = SIZES[dtype]
    if any(s < 0 or s % item for n, s in zip(x.shape, x.strides) if n > 1) or x.offset % item:
        raise errors.ArgumentError(f'{name} has strides of {x.strides} bytes from byte {x.offset} on: they must be '
                                   'multiples of the element, and not negative')
    strides = normal(x.shape, [s // item for s in x.strides])
    place: Tuple[int, int] = (0, _abi.CLATTN_BUFFER)
    if hasattr(x.base_data, 'svm_ptr'):
        place = x.base_data.svm_ptr, _abi.CLATTN_SVM
    elif x.base_data:
        place = x.base_data.int_ptr, _abi.CLATTN_BUFFER
    return View(name, dtype, tuple(x.shape), strides, x.offset, place[0], x, place[1])


def view(x: Any, name: str, output: bool = False) -> View:
    """The elements of an array of NumPy, pyopencl or PyTorch (on the CPU), or of any that speaks DLPack on the CPU."""
    import numpy
    if isinstance(x, numpy.ndarray):
        return _of_numpy(x, name, output)
    if is_torch(x):
        return _of_torch(x, name)
    if is_pyopencl(x):
        return _of_pyopencl(x, name)
    if hasattr(x, '__dlpack_device__'):
        kind, number = x.__dlpack_device__()
        if int(kind) != 1:
            raise refuse_device(name, f'DLPack {int(kind)}:{number}')
        return _of_numpy(numpy.from_dlpack(x), name, output)
    raise errors.DtypeError(f'{name} is a {type(x).__name__}: it must be an array of NumPy or pyopencl, a tensor of '
                            'PyTorch, or an array with __dlpack__')


def stored(x: Any, name: str, form: Optional[str], output: bool = False) -> View:
    """K or V; with a form of BLOCKS the last dimension of x is bytes of such blocks, and elements in the answer."""
    found = view(x, name, output)
    if form is None:
        return found
    if form not in BLOCKS:
        raise errors.ArgumentError(f'{name}_format is {form!r}: it is None (what the array is of) or one of '
                                   f'{", ".join(BLOCKS)}')
    found.require(len(found.shape), BYTES, f'with {name}_format {form!r}')
    size, elements, strides = SIZES[form], BLOCKS[form], found.strides
    if not strides or found.shape[-1] % size or strides[-1] > 1 or any(s % size for s in strides[:-1]):
        raise errors.ArgumentError(f'{name} has shape {found.shape} with strides {strides}: with {name}_format '
                                   f'{form!r} its rows are blocks of {size} bytes, one behind the other')
    return dataclasses.replace(found,
                               dtype=form,
                               shape=(*found.shape[:-1], found.shape[-1] // size * elements),
                               strides=(*(s // size * elements for s in strides[:-1]), 1))


def columns(x: View, count: int) -> View:
    """Without what the last block of a row has beyond `count` columns."""
    spare = x.shape[-1] - count
    return dataclasses.replace(x, shape=(*x.shape[:-1], count)) if 0 < spare < x.block else x


def scalars(x: Any, name: str, kind: str) -> View:
    """A small array of numbers, such as lengths or slopes: contiguous, of the type that the library takes, converted
    where it is not. `kind` is 'int32', 'fp32', 'byte' or 'uint64'."""
    import numpy
    if is_pyopencl(x):
        found = _of_pyopencl(x, name)
        if found.dtype != kind:
            raise errors.DtypeError(f'{name} is {x.dtype}: on a device it must be {kind}')
        return found
    if is_torch(x):
        if x.device.type != 'cpu':
            raise refuse_device(name, str(x.device))
        x = x.detach().numpy()
    want = {'int32': numpy.int32, 'fp32': numpy.float32, 'byte': numpy.uint8, 'uint64': numpy.uint64}[kind]
    have = numpy.asarray(x)
    if kind == 'int32' and have.size and have.dtype.kind not in 'iu':
        raise errors.DtypeError(f'{name} is {have.dtype}: it must be of integers')
    made = numpy.ascontiguousarray(have, dtype=want)
    if kind == 'int32' and not numpy.array_equal(made, have):
        raise errors.ArgumentError(f'{name} has numbers beyond 32 bits')
    return _of_numpy(made, name, False)


def writeable(x: Any, name: str, kind: str) -> View:
    """The same for one that a call may write to: it is used where it lies."""
    found = view(x, name, True)
    if found.dtype != kind:
        raise errors.DtypeError(f'{name} is {found.dtype}: it must be {kind}')
    return found


def host_array(found: View) -> Any:
    """The NumPy array that scalars() made; None for what lies on a device."""
    return found.source if found.buffer is None else None


def dense(shape: Sequence[int]) -> Tuple[int, ...]:
    """The strides of a dense array."""
    return tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))
