# SPDX-License-Identifier: BSD-2-Clause
"""A cache of keys and values, as flash_attn_with_kvcache() has it: what is appended, and which keys count."""
from typing import Any, Dict, NamedTuple, Optional, Sequence

from . import _abi, arrays, call as calls, errors, plain, score, views
from .device import Device, default_device


class Rotary(NamedTuple):
    """cos and sin [positions, half], and whether neighbours are a pair (or columns that are half apart)."""
    cos: views.View
    sin: views.View
    interleaved: bool


def rotary(cos: Any, sin: Any, interleaved: bool, k: Any) -> Optional[Rotary]:
    """What turns k and q; None where nothing does."""
    if cos is None and sin is None:
        return None
    if cos is None or sin is None or k is None:
        raise errors.ArgumentError('rotary_cos, rotary_sin, k and v must be given together')
    made = [views.scalars(_wide(x), name, 'fp32') for x, name in ((cos, 'rotary_cos'), (sin, 'rotary_sin'))]
    shapes = [x.shape for x in made]
    if len(shapes[0]) != 2 or shapes[0] != shapes[1] or 2 * shapes[0][1] > k.shape[-1]:
        raise errors.ArgumentError(f'rotary_cos has shape {shapes[0]}, rotary_sin {shapes[1]}: both must have '
                                   f'(positions, {k.shape[-1] // 2} or fewer)')
    return Rotary(made[0], made[1], interleaved)


def _wide(x: Any) -> Any:
    """A tensor of bf16, which NumPy has not, in fp32."""
    return x.float() if views.is_torch(x) else x


class Formats(NamedTuple):
    """How a cache stores K and V where that is in a format, as attention() has it."""
    k_format: Optional[str] = None
    v_format: Optional[str] = None
    k_scales: Any = None
    k_zeros: Any = None
    v_scales: Any = None
    v_zeros: Any = None
    k_scale_group: int = 0
    v_scale_group: int = 0


class Cache:
    """Which keys of which cache a batch has."""
    def __init__(self, k: Any, v: Any, lengths: Any, elements: Any, left: Any, table: Any, batch: int,
                 formats: Formats) -> None:
        import numpy
        self.k, self.v, self.batch, self.formats = k, v, batch, formats
        for name, x in (('k_cache', k), ('v_cache', v)):
            if len(x.shape) != 4:
                raise errors.ArgumentError(f'{name} has shape {tuple(x.shape)}: it must have four dimensions')
        if isinstance(lengths, (int, numpy.integer)):
            lengths = numpy.full(batch, lengths, numpy.int32)
        self.lengths = self._integers(lengths, 'cache_seqlens')
        self.left = self._integers(left, 'cache_leftpad')
        elements = self._integers(elements, 'cache_batch_idx')
        if table is not None and elements is not None:
            raise errors.ArgumentError('cache_batch_idx is given with block_table, which says itself where keys are')
        # An element of the cache that is picked by its number is one large page.
        self.pages = elements[:, None] if elements is not None else table
        if self.pages is None and k.shape[0] != batch:
            raise errors.ArgumentError(f'k_cache has a batch of {k.shape[0]}, q of {batch}: without cache_batch_idx '
                                       'they must agree')
        self.room = k.shape[1] * (1 if self.pages is None else self.pages.shape[-1])
        if self.pages is not None and self.lengths is None:
            self.lengths = numpy.full(batch, self.room, numpy.int32)

    def _integers(self, x: Any, name: str) -> Any:
        if x is None:
            return None
        found = views.host_array(views.scalars(x, name, 'int32'))
        if found is None:
            raise errors.ArgumentError(f'{name} is on a device: it must be on the host')
        if found.shape != (self.batch, ):
            raise errors.ArgumentError(f'{name} has shape {found.shape}: it must have ({self.batch},)')
        return found

    def append(self, q: Any, k: Any, v: Any, by: Optional[Rotary], ahead: bool, device: Optional[Device], queue: Any,
               wait_for: Sequence[Any]) -> Any:
        """Writes k and v behind the keys that are there, and answers with q, turned where k is. `ahead`: each row of q
        has a position of its own (causal or a window)."""
        import numpy
        self._check_new(k, v)
        before, self.lengths = self.lengths, self.lengths + numpy.int32(k.shape[1])
        if self.lengths.size and int(self.lengths.max()) > self.room:
            raise errors.ArgumentError(f'cache_seqlens has {int(before.max())}: with {k.shape[1]} more keys they '
                                       f'exceed the {self.room} that k_cache has')
        run = _Appending(self, by, device, arrays.queue_of([q, k, v, self.k, self.v], queue), wait_for)
        places = {'k_new': (k, 'k'), 'v_new': (v, 'v'), 'k': (self.k, 'k_cache'), 'v': (self.v, 'v_cache')}
        if by is None:
            run(places, None, k.shape[1])
            return q
        first = before if self.left is None else before - self.left
        rows, keys = (first[:, None] + numpy.arange(x.shape[1], dtype=numpy.int32) for x in (q, k))
        rows = rows if ahead else numpy.broadcast_to(first[:, None], rows.shape)
        last = max(int(rows.max(initial=0)), int(keys.max(initial=0)))
        if last >= min(by.cos.shape[0], self.room):
            raise errors.ArgumentError(f'rotary_cos has {by.cos.shape[0]} positions, k_cache {self.room}: position '
                                       f'{last} is needed')
        if self.left is not None:  # k turns by other positions than those it goes to
            places['k_new'] = run.turned(k, 'k', keys), 'k'
            run.by = None
        run(places, None, k.shape[1])
        run.by = by
        return run.turned(q, 'q', rows)

    def _check_new(self, k: Any, v: Any) -> None:
        if k is None or v is None or self.lengths is None:
            raise errors.ArgumentError(
                'k, v and cache_seqlens must be given together, which say what is appended and where')
        for name, x, cache in (('k', k, self.k), ('v', v, self.v)):
            want = (self.batch, k.shape[1], cache.shape[2], cache.shape[3])
            form = getattr(self.formats, f'{name}_format')
            if tuple(x.shape)[:3 if form else 4] != want[:3 if form else 4]:
                raise errors.ArgumentError(f'{name} has shape {tuple(x.shape)}: it must have {want}')

    def options(self) -> Dict[str, Any]:
        """The keywords of attention() that say which keys there are."""
        import numpy
        found = {'key_lengths': self.lengths, 'pages': self.pages, **self.formats._asdict()}
        if self.left is not None:
            seen = numpy.arange(self.room) >= self.left[:, None]
            found['mask'] = seen[:, None, None, :]
        return found


class _Appending:
    """Calls of the library that append to one cache."""
    def __init__(self, cache: Cache, by: Optional[Rotary], device: Optional[Device], queue: Any,
                 wait_for: Sequence[Any]) -> None:
        self.cache, self.by, self.device, self.queue, self.wait_for = cache, by, device, queue, wait_for

    def turned(self, x: Any, name: str, positions: Any) -> Any:
        """The rows of x, each turned by its position."""
        made = arrays.new(x, x.shape, views.view(x, name).dtype, self.queue)
        self({'q': (x, name), 'q_rotated': (made, f'{name}_rotated')}, positions, x.shape[1])
        return made

    def __call__(self, places: Dict[str, Any], positions: Any, rows: int) -> None:
        call = calls.Call('append')
        for name, (x, said) in places.items():
            form = getattr(self.cache.formats, f'{name}_format', None)
            view = views.stored(x, said, form, name in ('k', 'v', 'q_rotated'))
            kinds = views.KEYS if name in ('k', 'v') else views.FLOATS
            call.tensors[name] = view.require(4, kinds, 'as a tensor of a cache').permute(0, 2, 1, 3)
        call.outputs = [name for name in ('k', 'v', 'q_rotated') if name in places]
        self._fill(call, positions, rows)
        if self.queue is None:
            call.run(self.device or default_device())
            return
        plain.check_queue(self.queue, self.wait_for)
        inputs = [x for x, _ in places.values()]
        event = call.run(calls.device_of(self.queue, self.device), self.queue.int_ptr,
                         arrays.events_of(inputs, self.wait_for))
        arrays.hand_event([places[name][0] for name in call.outputs], event)

    def _fill(self, call: calls.Call, positions: Any, rows: int) -> None:
        cache, problem, params, tensors = self.cache, call.problem, call.append_params, call.tensors
        given = [tensors[name] for name in ('k_new', 'v_new', 'q') if name in tensors]
        if len({x.dtype for x in given}) != 1:
            raise errors.DtypeError(f'k is {given[0].dtype}, v {given[1].dtype}: they must be of one type')
        problem.d = problem.d_v = given[0].shape[-1]
        if 'v' in tensors:
            problem.d_v = given[1].shape[-1]
            self._fill_formats(call)
        problem.dtype, params.new_type = views.DTYPES[given[0].dtype], views.OPERAND_TYPES[given[0].dtype]
        for name in ('k', 'v'):
            if name in tensors:
                setattr(problem, f'{name}_type', views.OPERAND_TYPES[tensors[name].dtype])
        shape = call.shape
        shape.batch, shape.n_q, shape.n_kv, shape.kv_heads = cache.batch, rows, cache.room, cache.k.shape[2]
        shape.heads = tensors['q'].shape[1] if 'q' in tensors else shape.kv_heads
        self._fill_places(call, positions)
        if self.by is not None:
            params.rotary_d, params.interleaved = 2 * self.by.cos.shape[1], int(self.by.interleaved)
            tensors.update(rope_cos=self.by.cos, rope_sin=self.by.sin)
            call.numbers['rope_rows'] = self.by.cos.shape[0]

    def _fill_formats(self, call: calls.Call) -> None:
        """How K and V are stored; scales that each key has of its own are made by the call."""
        formats = self.cache.formats
        for name in 'kv':
            columns = call.tensors[f'{name}_new'].shape[-1]
            call.tensors[name] = stored = views.columns(call.tensors[name], columns)
            if stored.shape[-1] != columns:
                raise errors.ArgumentError(f'{name} has {columns} columns, {name}_cache {stored.shape[-1]}: they must '
                                           'agree')
            score.scales(call, name, stored, getattr(formats, f'{name}_scales'), getattr(formats, f'{name}_zeros'),
                         getattr(formats, f'{name}_scale_group'), True)
        call.outputs += [name for name in calls.SCALES if name in call.tensors and call.tensors[name].strides[2]]

    def _fill_places(self, call: calls.Call, positions: Any) -> None:
        cache = self.cache
        call.problem.features = _abi.CLATTN_KEY_LENGTHS
        call.tensors['key_lengths'] = views.scalars(cache.lengths, 'cache_seqlens', 'int32')
        if positions is not None:
            call.tensors['positions'] = views.scalars(positions, 'positions', 'int32')
        if cache.pages is not None and 'k' in call.tensors:
            call.problem.features |= _abi.CLATTN_PAGES
            call.problem.page_keys = cache.k.shape[1]
            call.score['pool_pages'] = cache.k.shape[0]
            call.tensors['pages'] = views.scalars(cache.pages, 'block_table', 'int32')
