# SPDX-License-Identifier: BSD-2-Clause
"""What modifies scores: from the keywords of attention() to the features of a problem and the values of a call."""
import math
from typing import Any, Iterable, Mapping, Optional, Sequence, Tuple

from . import _abi, errors, plain, views
from .call import Call
from .views import View


class Sizes:
    """The sizes of a call."""
    def __init__(self, batch: int, heads: int, kv_heads: int, n_q: int, n_kv: int, packed: bool) -> None:
        self.batch, self.heads, self.kv_heads, self.n_q, self.n_kv = batch, heads, kv_heads, n_q, n_kv
        self.packed = packed

    def fill(self, call: Call) -> None:
        for name in ('batch', 'heads', 'kv_heads', 'n_q', 'n_kv'):
            setattr(call.shape, name, getattr(self, name))

    @property
    def pairs(self) -> Tuple[int, int, int, int]:
        return self.batch, self.heads, self.n_q, self.n_kv


def causal_of(causal: Any, name: str = 'causal') -> int:
    """False, True (bottom-right), "bottom-right" or "top-left"."""
    known = {
        False: _abi.CLATTN_FULL, None: _abi.CLATTN_FULL, True: _abi.CLATTN_CAUSAL_BOTTOM_RIGHT,
        'bottom-right': _abi.CLATTN_CAUSAL_BOTTOM_RIGHT, 'top-left': _abi.CLATTN_CAUSAL_TOP_LEFT
    }
    if not isinstance(causal, (bool, str, type(None))) or causal not in known:
        raise errors.ArgumentError(f'{name} is {causal!r}: it is False, True, "bottom-right" or "top-left"')
    return known[causal]


def packing_of(packing: Optional[str]) -> int:
    """None, "never" or "always"."""
    known = {
        None: _abi.CLATTN_PACKING_PLANNED, 'never': _abi.CLATTN_PACKING_NEVER, 'always': _abi.CLATTN_PACKING_ALWAYS
    }
    if packing not in known:
        raise errors.ArgumentError(f'packing is {packing!r}: it is None, "never" or "always"')
    return known[packing]


def expected(problem: _abi.clattn_problem, numbers: Optional[Mapping[str, float]]) -> None:
    """What calls will have."""
    names = ('n_q', 'n_kv', 'heads', 'kv_heads', 'density')
    for name, number in (numbers or {}).items():
        if name not in names:
            raise errors.ArgumentError(f'expected has {name!r}: it is one of {", ".join(names)}')
        read = plain.number if name == 'density' else plain.whole
        setattr(problem, f'expected_{name}', read(number, f'expected[{name!r}]'))


def finite(value: Any, name: str) -> float:
    number = plain.number(value, name)
    if not math.isfinite(number):
        raise errors.ArgumentError(f'{name} is {number}: it must be finite')
    return number


def _index(call: Call, name: str, x: Any, size: Optional[int], least: int, most: Optional[int]) -> View:
    """An array of numbers from least to most; what lies on a device is not looked at."""
    view = views.scalars(x, name, 'int32')
    if size is not None and view.shape != (size, ):
        raise errors.ArgumentError(f'{name} has shape {view.shape}: it must have ({size},)')
    numbers = views.host_array(view)
    if numbers is not None and numbers.size:
        low, high = int(numbers.min()), int(numbers.max())
        if low < least or (most is not None and high > most):
            raise errors.ArgumentError(
                f'{name} has {low if low < least else high}: its numbers are from {least} to {most}')
    call.tensors[name] = view
    return view


def _cumulative(call: Call, name: str, x: Any, batch: int, total: int, longest: int) -> None:
    view = _index(call, name, x, batch + 1, 0, total)
    numbers = views.host_array(view)
    if numbers is None:
        return
    steps = numbers[1:] - numbers[:-1]
    if numbers[0] != 0 or (steps < 0).any() or numbers[-1] != total:
        raise errors.ArgumentError(f'{name} is {numbers.tolist()}: it must go from 0 to {total}, the rows that the '
                                   'array has, and not fall')
    if len(steps) and int(steps.max()) > longest:
        raise errors.ArgumentError(f'{name} has a sequence of {int(steps.max())}: the longest is said to be {longest}')


def window(call: Call, limits: Optional[Sequence[int]]) -> None:
    """(left, right), each -1 for no limit."""
    if limits is None or tuple(limits) == (-1, -1):
        return
    if min(limits) < -1:
        raise errors.ArgumentError(
            f'window is {tuple(limits)}: it is (left, right), each a number of keys or -1 for no limit')
    call.problem.features |= _abi.CLATTN_WINDOW
    call.score.update(window_left=limits[0], window_right=limits[1])


def softcap(call: Call, cap: float) -> None:
    cap = finite(cap, 'softcap')
    if cap < 0:
        raise errors.ArgumentError(f'softcap is {cap}: it must be greater than 0, or 0 for none')
    if cap:
        call.problem.features |= _abi.CLATTN_SOFTCAP
        call.score['softcap'] = cap


def alibi(call: Call, slopes: Any, sizes: Sizes) -> None:
    if slopes is not None:
        call.problem.features |= _abi.CLATTN_ALIBI
        call.tensors['alibi'] = views.scalars(slopes, 'alibi', 'fp32').expand((sizes.batch, sizes.heads))


def bias(call: Call, values: Any, sizes: Sizes) -> None:
    if values is None:
        return
    view = views.view(values, 'bias')
    if view.dtype not in views.FLOATS:
        raise errors.DtypeError(f'bias is {view.dtype}: it must be one of {", ".join(views.FLOATS)}')
    call.problem.features |= _abi.CLATTN_BIAS
    call.problem.bias_type = views.OPERAND_TYPES[view.dtype]
    call.tensors['bias'] = view.expand(sizes.pairs)


def bias_slopes(call: Call, slopes: Any, sizes: Sizes) -> None:
    if slopes is None:
        return
    if 'bias' not in call.tensors:
        raise errors.ArgumentError('bias_slopes is given without a bias, which it multiplies: leave it out')
    call.problem.features |= _abi.CLATTN_BIAS_SLOPES
    _by_head(call, 'bias_slopes', slopes, sizes)


def _by_head(call: Call, name: str, values: Any, sizes: Sizes) -> None:
    view = views.scalars(values, name, 'fp32')
    if view.shape != (sizes.heads, ):
        raise errors.ArgumentError(f'{name} has shape {view.shape}: it must have ({sizes.heads},), a number a head')
    call.tensors[name] = view


def mask(call: Call, values: Any, sizes: Sizes) -> None:
    """True (or another byte than 0) where a row sees a key."""
    if values is None:
        return
    view = views.view(values, 'mask')
    if view.dtype != 'byte':
        raise errors.DtypeError(f'mask is {view.dtype}: it must be of bool or uint8, and not 0 where a row sees a '
                                'key; what is added to scores is a bias')
    call.problem.features |= _abi.CLATTN_MASK
    call.tensors['mask'] = view.expand(sizes.pairs)


def block_mask(call: Call, blocks: Any, size: Optional[Sequence[int]], sizes: Sizes) -> None:
    """Dense [.., blocks of rows, blocks of keys], or (offsets [.., blocks of rows + 1], columns) as CSR."""
    if blocks is None:
        if size is not None:
            raise errors.ArgumentError(f'block_size is {tuple(size)} without a block_mask: leave it out')
        return
    if size is None:
        raise errors.ArgumentError(f'block_size is {size}: with block_mask it is (rows, keys) of a block')
    call.problem.features |= _abi.CLATTN_BLOCK_MASK
    call.problem.block_q, call.problem.block_kv = size
    rows, keys = (-(-n // max(block, 1)) for n, block in zip((sizes.n_q, sizes.n_kv), size))
    if not isinstance(blocks, tuple):
        view = views.view(blocks, 'block_mask').expand((sizes.batch, sizes.heads, rows, keys))
        call.tensors['block_mask'] = view.require(4, views.BYTES, 'as a block mask')
        return
    offsets, columns = blocks
    view = views.scalars(offsets, 'block_offsets', 'int32')
    call.tensors['block_offsets'] = view.expand((sizes.batch, sizes.heads, rows + 1))
    view = _index(call, 'block_columns', columns, None, 0, keys - 1)
    call.score['block_count'] = view.shape[0]


def key_lengths(call: Call, lengths: Any, sizes: Sizes) -> None:
    if lengths is not None:
        call.problem.features |= _abi.CLATTN_KEY_LENGTHS
        _index(call, 'key_lengths', lengths, sizes.batch, 0, sizes.n_kv)


def packed(call: Call, cu_q: Any, cu_kv: Any, sizes: Sizes, total_q: int, total_kv: int) -> None:
    call.problem.features |= _abi.CLATTN_VARLEN
    _cumulative(call, 'cu_seqlens_q', cu_q, sizes.batch, total_q, sizes.n_q)
    call.score['total_q'] = total_q
    if cu_kv is not None:
        _cumulative(call, 'cu_seqlens_kv', cu_kv, sizes.batch, total_kv, sizes.n_kv)
        call.score['total_kv'] = total_kv


def sinks(call: Call, logits: Any, sizes: Sizes) -> None:
    if logits is not None:
        call.problem.features |= _abi.CLATTN_SINKS
        _by_head(call, 'sinks', logits, sizes)


def dropout(call: Call, p: float, seed: int, offset: int) -> None:
    if not 0 <= p < 1:
        raise errors.ArgumentError(f'dropout_p is {p}: it must be from 0 to below 1')
    if p:
        call.problem.features |= _abi.CLATTN_DROPOUT
        call.score.update(dropout_p=p, dropout_seed=seed & (2**64 - 1), dropout_offset=offset & (2**32 - 1))


def rng_state(call: Call, state: Any) -> None:
    """The seed and the offset of dropout where the kernels read them."""
    if state is None:
        return
    if not call.problem.features & _abi.CLATTN_DROPOUT:
        raise errors.ArgumentError('rng_state is given without dropout_p, which it is the seed of: leave it out')
    view = views.scalars(state, 'rng_state', 'uint64')
    if view.shape != (2, ):
        raise errors.ArgumentError(f'rng_state has shape {view.shape}: it must have (2,), a seed and an offset')
    call.problem.rng_state = 1
    call.tensors['rng_state'] = view


def pages(call: Call, table: Any, offsets: Any, pool: int, page_keys: int, sizes: Sizes) -> None:
    call.problem.features |= _abi.CLATTN_PAGES
    call.problem.page_keys = page_keys
    view = views.scalars(table, 'pages', 'int32')
    call.score['pool_pages'] = pool
    call.tensors['pages'] = view
    if offsets is not None:
        call.tensors['pages'] = view.lead(2)
        call.score['page_count'] = view.shape[0]
        _index(call, 'page_offsets', offsets, sizes.batch + 1, 0, view.shape[0])
    elif len(view.shape) != 2 or view.shape[0] != sizes.batch:
        raise errors.ArgumentError(f'pages has shape {view.shape}: it must have ({sizes.batch}, pages of a sequence)')


def rows(call: Call, shifts: Any, lengths: Any, sizes: Sizes) -> None:
    """How rows are aligned, and how many each batch element has."""
    if shifts is not None:
        call.problem.features |= _abi.CLATTN_ROW_SHIFTS
        _index(call, 'row_shifts', shifts, sizes.batch, -2**29, 2**29)
    if lengths is not None:
        call.problem.features |= _abi.CLATTN_QUERY_LENGTHS
        _index(call, 'query_lengths', lengths, sizes.batch, 0, sizes.n_q)


def tree_mask(call: Call, values: Any, sizes: Sizes) -> None:
    """Which of the last keys a row sees, of bool; the library takes bits."""
    if values is None:
        return
    import numpy
    seen = numpy.asarray(values)
    if seen.dtype != bool or seen.ndim < 2:
        raise errors.DtypeError(
            f'tree_mask is {seen.dtype} of shape {seen.shape}: it must be of bool, [.., rows, keys]')
    padded = numpy.zeros((*seen.shape[:-1], -(-seen.shape[-1] // 32) * 32), bool)
    padded[..., :seen.shape[-1]] = seen
    words = numpy.packbits(padded, axis=-1, bitorder='little').view('<i4')
    call.problem.features |= _abi.CLATTN_TREE_MASK
    call.score['tree_keys'] = seen.shape[-1]
    view = views.scalars(words, 'tree_mask', 'int32')
    call.tensors['tree_mask'] = view.expand((sizes.batch, sizes.heads, sizes.n_q, words.shape[-1]))


def more(call: Call, values: Mapping[str, Any], sizes: Sizes, known: Iterable[str]) -> None:
    """Features whose values are in struct clattn_score_more, by their names there."""
    for name, value in values.items():
        if name not in _abi.SCORE_MORE:
            raise plain.unknown(name, (*known, *_abi.SCORE_MORE))
        if value is None:
            continue
        feature, dimensions = _abi.SCORE_MORE[name]
        call.problem.features |= feature
        if dimensions is None:
            call.score[name] = finite(value, name)
            continue
        shape = tuple(getattr(sizes, size) if hasattr(sizes, size) else int(size) for size in dimensions)
        call.tensors[name] = views.scalars(value, name, 'fp32').expand(shape)


def lse_gradient(call: Call, values: Any, rows: Tuple[int, ...]) -> None:
    if values is None:
        return
    view = views.view(values, 'd_lse').require(len(rows), ('fp32', ), 'as the gradient by LSE')
    if view.shape != rows:
        raise errors.ArgumentError(f'd_lse has shape {view.shape}: it must have {rows}')
    call.problem.features |= _abi.CLATTN_LSE_GRADIENT
    call.tensors['d_lse'] = view


def scales(call: Call, which: str, operand: View, values: Any, zeros: Any, group: int, written: bool = False) -> None:
    """Of K or V that are stored as INT8, INT4 or FP8: [.., groups] in the library's order, or what broadcasts to
    it. `written`: the call may make them, so that they are used where they lie."""
    if values is None:
        if operand.dtype in views.SCALED:
            raise errors.ArgumentError(
                f'{which}_scales is None: {which} is {operand.dtype}, whose elements need scales')
        return
    groups = -(-operand.shape[-1] // group) if group else 1
    setattr(call.problem, f'{which}_scale_group', group)
    shape = (*operand.shape[:-1], groups)
    read = views.writeable if written else views.scalars
    call.tensors[f'{which}_scales'] = read(values, f'{which}_scales', 'fp32').expand(shape)
    if zeros is None:
        return
    call.problem.zero_points |= {'k': _abi.CLATTN_K_ZEROS, 'v': _abi.CLATTN_V_ZEROS}[which]
    call.tensors[f'{which}_zeros'] = read(zeros, f'{which}_zeros', 'fp32').expand(shape)


def functions(call: Call, score_mod: Optional[str], score_mod_grad: Optional[str], mask_mod: Optional[str],
              data: Any) -> None:
    call.text('score_mod', score_mod)
    call.text('mask_mod', mask_mod)
    if call.backward:
        call.text('score_mod_grad', score_mod_grad)
    if data is not None:
        view = views.scalars(data, 'data', 'fp32')
        if len(view.shape) != 1:
            raise errors.ArgumentError(f'data has shape {view.shape}: it must have one dimension')
        call.tensors['data'] = view
