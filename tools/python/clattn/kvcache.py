# SPDX-License-Identifier: BSD-2-Clause
"""A cache of keys and values, as flash_attn_with_kvcache() has it: what is appended, and which keys count."""
from typing import Any, Dict, NamedTuple, Optional

from . import errors, views


class Rotary(NamedTuple):
    """cos and sin [positions, half], and whether neighbours are a pair (or columns that are half apart)."""
    cos: Any
    sin: Any
    interleaved: bool


def rotary(cos: Any, sin: Any, interleaved: bool, k: Any) -> Optional[Rotary]:
    import numpy
    if cos is None and sin is None:
        return None
    if cos is None or sin is None or k is None:
        raise errors.ArgumentError('rotary_cos, rotary_sin, k and v must be given together')
    found = [_numbers(x, name) for x, name in ((cos, 'rotary_cos'), (sin, 'rotary_sin'))]
    if found[0].ndim != 2 or found[0].shape != found[1].shape or 2 * found[0].shape[1] > k.shape[-1]:
        raise errors.ArgumentError(f'rotary_cos has shape {found[0].shape}, rotary_sin {found[1].shape}: both must have '
                                   f'(positions, {k.shape[-1] // 2} or fewer)')
    return Rotary(*(numpy.asarray(x, numpy.float32) for x in found), interleaved)


def bits(x: Any, name: str) -> Any:
    """The array of NumPy over the elements of an array of the host; bf16 as uint16."""
    import numpy
    if views.is_pyopencl(x):
        raise errors.ArgumentError(f'{name} is on a device: keys are appended, and turned, in arrays of the host; take k, v, '
                                   'rotary_cos and rotary_sin as None, and append by your own kernel')
    if views.is_torch(x):
        view = views.view(x, name)
        x = x.detach()
        return x.view(_torch_int16()).numpy().view(numpy.uint16) if view.dtype == 'bf16' else x.numpy()
    views.view(x, name)
    return x.view(numpy.uint16) if x.dtype.name == 'bfloat16' else x


def _torch_int16():
    import torch
    return torch.int16


def widen(x: Any) -> Any:
    """fp32 of fp32, fp16 or the bits of bf16."""
    import numpy
    if x.dtype == numpy.uint16:
        return (x.astype(numpy.uint32) << 16).view(numpy.float32)
    return x.astype(numpy.float32)


def narrow(x: Any, dtype: Any) -> Any:
    """The nearest elements of a type, even ones where two are as near; NaN stays NaN."""
    import numpy
    if dtype != numpy.uint16:
        return x.astype(dtype)
    word = numpy.ascontiguousarray(x, numpy.float32).view(numpy.uint32)
    rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
    return numpy.where(numpy.isnan(x), 0x7FC0, rounded).astype(numpy.uint16)


def _numbers(x: Any, name: str) -> Any:
    return widen(bits(x, name))


def turn(x: Any, by: Rotary, positions: Any) -> Any:
    """x [batch, n, heads, d] turned by its positions [batch, n], in fp32, rounded to its type."""
    import numpy
    if positions.size and int(positions.max()) >= by.cos.shape[0]:
        raise errors.ArgumentError(f'rotary_cos has {by.cos.shape[0]} positions: position {int(positions.max())} is needed')
    half = by.cos.shape[1]
    cos, sin = (table[positions][:, :, None, :] for table in (by.cos, by.sin))
    wide = widen(x)
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if by.interleaved else \
        (slice(0, half), slice(half, 2 * half))
    a, b = wide[..., first].copy(), wide[..., second].copy()
    wide[..., first], wide[..., second] = a * cos - b * sin, b * cos + a * sin
    return numpy.ascontiguousarray(narrow(wide, x.dtype))


class Cache:
    """Which keys of which cache a batch has."""

    def __init__(self, k_cache: Any, v_cache: Any, lengths: Any, elements: Any, left: Any, table: Any, batch: int):
        import numpy
        self.k, self.v, self.batch, self.table = k_cache, v_cache, batch, table
        for name, x in (('k_cache', k_cache), ('v_cache', v_cache)):
            if len(x.shape) != 4:
                raise errors.ArgumentError(f'{name} has shape {tuple(x.shape)}: it must have four dimensions')
        if table is not None and elements is not None:
            raise errors.ArgumentError('cache_batch_idx is given with block_table, which says itself where keys are')
        if lengths is not None and not hasattr(lengths, 'shape') and not isinstance(lengths, (list, tuple)):
            lengths = numpy.full(batch, int(lengths), numpy.int32)
        self.lengths = self._integers(lengths, 'cache_seqlens')
        self.elements = self._integers(elements, 'cache_batch_idx')
        self.left = self._integers(left, 'cache_leftpad')
        self.pages = None if table is None else views.host_array(views.scalars(table, 'block_table', 'int32'))

    def _integers(self, x: Any, name: str) -> Any:
        if x is None:
            return None
        found = views.host_array(views.scalars(x, name, 'int32'))
        if found is None:
            raise errors.ArgumentError(f'{name} is on a device: it must be on the host')
        if found.shape != (self.batch,):
            raise errors.ArgumentError(f'{name} has shape {found.shape}: it must have ({self.batch},)')
        return found

    @property
    def room(self) -> int:
        """Keys that an element can have."""
        return self.k.shape[1] if self.table is None else self.table.shape[-1] * self.k.shape[1]

    def append(self, q: Any, k: Any, v: Any, by: Optional[Rotary], ahead: bool) -> Any:
        """Writes k and v behind the keys that are there, and answers with q, turned where k is. `ahead`: each row of q has
        a position of its own (causal or a window)."""
        import numpy
        if k is None or v is None or self.lengths is None:
            raise errors.ArgumentError('k, v and cache_seqlens must be given together, which say what is appended and where')
        new = k.shape[1]
        if tuple(k.shape[:1] + k.shape[2:3]) != (self.batch, self.k.shape[2]) or v.shape[:3] != k.shape[:3]:
            raise errors.ArgumentError(f'k has shape {tuple(k.shape)}, v {tuple(v.shape)}: they must have ({self.batch}, n_new, '
                                       f'{self.k.shape[2]}, columns)')
        places = self.lengths[:, None] + numpy.arange(new, dtype=numpy.int32)
        if new and int(places.max()) >= self.room:
            raise errors.ArgumentError(f'cache_seqlens has {int(self.lengths.max())}: with {new} more keys they exceed the '
                                       f'{self.room} that k_cache has')
        shift = 0 if self.left is None else self.left[:, None]
        new_k, new_v = bits(k, 'k'), bits(v, 'v')
        if by is not None:
            new_k = turn(new_k, by, places - shift)
            rows = numpy.arange(q.shape[1], dtype=numpy.int32) * (1 if ahead else 0)
            q = self._like(turn(bits(q, 'q'), by, self.lengths[:, None] - shift + rows), q)
        for name, cache, more in (('k_cache', self.k, new_k), ('v_cache', self.v, new_v)):
            kept = bits(cache, name)
            if kept.dtype != more.dtype:
                raise errors.DtypeError(f'{name} is {cache.dtype}: what is appended must be of the same type')
            kept[self._places(places)] = more
        self.lengths = self.lengths + numpy.int32(new)
        return q

    @staticmethod
    def _like(x: Any, like: Any) -> Any:
        if views.is_torch(like):
            import torch
            made = torch.from_numpy(x.view('int16') if like.dtype == torch.bfloat16 else x)
            return made.view(like.dtype)
        return x.view(like.dtype)

    def _places(self, places: Any) -> Any:
        """Indices of the cache's first two dimensions."""
        import numpy
        if self.pages is None:
            elements = numpy.arange(self.batch) if self.elements is None else self.elements
            return elements[:, None], places
        if self.table is not None and self.pages.shape[0] != self.batch:
            raise errors.ArgumentError(f'block_table has shape {self.pages.shape}: it must have ({self.batch}, pages)')
        page_keys = self.k.shape[1]
        return numpy.take_along_axis(self.pages, places // page_keys, 1), places % page_keys

    def options(self, q: Any) -> Dict[str, Any]:
        """The keywords of attention() that say which keys there are."""
        import numpy
        found: Dict[str, Any] = {'key_lengths': self.lengths}
        if self.table is not None:
            found['pages'] = self.table
        elif self.elements is not None:
            found['pages'] = self.elements[:, None]
        elif self.k.shape[0] != self.batch:
            raise errors.ArgumentError(f'k_cache has a batch of {self.k.shape[0]}, q of {self.batch}: without cache_batch_idx '
                                       'they must agree')
        if self.left is not None:
            seen = numpy.arange(self.room) >= self.left[:, None]
            found['mask'] = seen.view(numpy.uint8)[:, None, None, :]
        if 'pages' in found and self.lengths is None:
            found['key_lengths'] = numpy.full(self.batch, self.room, numpy.int32)
        return found
