# SPDX-License-Identifier: BSD-2-Clause
"""attention() and attention_backward(): all that the library has."""
import inspect
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _abi, arrays, call as calls, errors, pieces, plain, rows, score, views
from .device import Device, default_device
from .views import View

_ORDERS = {'bhnd': (0, 1, 2, 3), 'bnhd': (0, 2, 1, 3), 'hnd': (0, 1, 2), 'nhd': (1, 0, 2)}

# Rows up to which a call may have its keys split between work-groups: with more there are blocks of rows enough.
_FEW_ROWS = 64

_NAMES = errors.named(o='out')


class Gradients(NamedTuple):
    """What attention_backward() computed; None for what was not asked for."""
    q: Any = None
    k: Any = None
    v: Any = None
    bias: Any = None
    sinks: Any = None


class _Arguments:
    """The arrays of a call in the library's order of dimensions, and their sizes."""
    def __init__(self, q: Any, k: Any, v: Any, options: Dict[str, Any], backward: bool) -> None:
        plain.check(options)
        self.options, self.backward = options, backward
        self.layout = options.pop('layout')
        if self.layout not in _ORDERS:
            raise errors.ArgumentError(f'layout is {self.layout!r}: it is one of {", ".join(_ORDERS)}')
        self.packed = len(self.layout) == 3
        self.paged = options.get('pages') is not None
        self.call = calls.Call('backward' if backward else 'forward')
        self.call.pieces = pieces.Pieces(
            **{name: options[name]
               for name in ('kv_chunk', 'progress', 'cancel', 'max_device_bytes')})
        self.q, self.v = self.ordered(q, 'q'), self.keys(v, 'v')
        self.k = views.columns(self.keys(k, 'k'), self.q.shape[-1])
        self._check_types()
        self.sizes = self._sizes()
        self.call.tensors.update(q=self.q, k=self.k, v=self.v)
        self._fill_problem()
        self._fill_score()

    def ordered(self, x: Any, name: str, output: bool = False) -> View:
        """[batch, heads, n, d], or [heads, total, d] of packed sequences."""
        order = _ORDERS[self.layout]
        found = self.seen(x, name, output)
        return found.require(len(order), self.kinds(name), f'with layout {self.layout}').permute(*order)

    def seen(self, x: Any, name: str, output: bool = False) -> View:
        return views.stored(x, name, self.options.get(f'{name}_format'), output)

    @staticmethod
    def kinds(name: str) -> Tuple[str, ...]:
        return views.KEYS if name in ('k', 'v') else views.FLOATS

    def keys(self, x: Any, name: str) -> View:
        if not (self.paged and self.packed):
            return self.ordered(x, name)
        order = _ORDERS['bnhd' if self.layout == 'nhd' else 'bhnd']
        return self.seen(x, name).require(4, self.kinds(name), 'as a pool of pages').permute(*order)

    def _check_types(self) -> None:
        q, k, v = self.q, self.k, self.v
        if k.shape[:-1] != v.shape[:-1]:
            raise errors.ArgumentError(
                f'v has shape {v.source.shape}, k {k.source.shape}: all but the last dimension must agree')
        if k.shape[-1] != q.shape[-1]:
            raise errors.ArgumentError(f'k has {k.shape[-1]} columns, q {q.shape[-1]}: they must agree')
        if not self.paged and not self.packed and k.shape[0] != q.shape[0]:
            raise errors.ArgumentError(f'k has a batch of {k.shape[0]}, q of {q.shape[0]}: they must agree')

    def _sizes(self) -> score.Sizes:
        options, q, k = self.options, self.q, self.k
        kv_heads = k.shape[1] if len(k.shape) == 4 else k.shape[0]
        if not self.packed:
            batch, heads, n_q, _ = q.shape
            n_kv = self._paged_keys() if self.paged else k.shape[2]
            return score.Sizes(batch, heads, kv_heads, n_q, n_kv, False)
        if options['cu_seqlens_q'] is None or (options['cu_seqlens_kv'] is None) != self.paged:
            raise errors.ArgumentError(f'layout {self.layout} is of packed sequences: cu_seqlens_q, and cu_seqlens_kv '
                                       'unless keys are in pages, must be given')
        cu_q = views.scalars(options['cu_seqlens_q'], 'cu_seqlens_q', 'int32')
        if len(cu_q.shape) != 1 or not cu_q.shape[0]:
            raise errors.ArgumentError(f'cu_seqlens_q has shape {cu_q.shape}: it must have (sequences + 1,)')
        n_q = self._longest('q', cu_q)
        n_kv = self._paged_keys() if self.paged else self._longest(
            'kv', views.scalars(options['cu_seqlens_kv'], 'cu_seqlens_kv', 'int32'))
        return score.Sizes(cu_q.shape[0] - 1, q.shape[0], kv_heads, n_q, n_kv, True)

    def _longest(self, which: str, cumulative: View) -> int:
        given = self.options[f'max_n_{which}']
        if given is not None:
            return given
        numbers = views.host_array(cumulative)
        if numbers is None:
            raise errors.ArgumentError(
                f'max_n_{which} is None: where cu_seqlens_{which} is on a device it must be given')
        return int((numbers[1:] - numbers[:-1]).max(initial=0))

    def _paged_keys(self) -> int:
        options, page_keys = self.options, self.k.shape[2]
        if options['max_n_kv'] is not None:
            return options['max_n_kv']
        if options['page_offsets'] is None:
            return views.scalars(options['pages'], 'pages', 'int32').shape[-1] * page_keys
        raise errors.ArgumentError('max_n_kv is None: with page_offsets it must be given')

    def _fill_problem(self) -> None:
        problem, options = self.call.problem, self.options
        problem.d, problem.d_v = self.q.shape[-1], self.v.shape[-1]
        problem.dtype = views.DTYPES[self.q.dtype]
        for name in 'kv':
            if getattr(self, name).dtype != self.q.dtype:
                setattr(problem, f'{name}_type', views.OPERAND_TYPES[getattr(self, name).dtype])
        problem.causal = score.causal_of(options['causal'])
        if options['scale'] is not None:
            problem.scale = score.finite(options['scale'], 'scale')
            if not problem.scale:
                raise errors.ArgumentError(
                    'scale is 0: all scores would be; it is another number, or None for 1 / sqrt(d)')
        problem.unordered = int(options.get('unordered', False))
        problem.packing = score.packing_of(options.get('packing'))
        score.expected(problem, options['expected'])
        for name in ('b_r', 'b_c', 'work_group_size'):
            setattr(problem, name, options.get(name) or 0)
        self.call.text('skeleton', options.get('skeleton'))
        self.call.text('knobs', options.get('knobs'))
        if not self.backward:
            few = self.sizes.n_q <= _FEW_ROWS and not options['kv_chunk'] and options['window'] is None
            given = options['splits']
            problem.split_keys = options['split_keys']
            few = few and not problem.split_keys
            planned = _abi.CLATTN_SPLITS_BY_SHAPE if few else 0 if problem.split_keys else 1
            problem.splits = given if given is not None else planned

    def _fill_score(self) -> None:
        call, options, sizes = self.call, self.options, self.sizes
        sizes.fill(call)
        score.window(call, options['window'])
        call.problem.window_corner = score.causal_of(options['window_corner'] or False, 'window_corner')
        call.problem.sink_keys = options.get('sink_keys') or 0
        score.rows(call, options['row_shifts'], options['query_lengths'], sizes)
        score.tree_mask(call, options['tree_mask'], sizes)
        score.softcap(call, options['softcap'])
        score.alibi(call, options['alibi'], sizes)
        score.bias(call, options['bias'], sizes)
        score.bias_slopes(call, options['bias_slopes'], sizes)
        score.mask(call, options['mask'], sizes)
        score.block_mask(call, options['block_mask'], options['block_size'], sizes)
        score.key_lengths(call, options['key_lengths'], sizes)
        if self.packed:
            total_kv = 0 if self.paged else self.k.shape[1]
            score.packed(call, options['cu_seqlens_q'], options['cu_seqlens_kv'], sizes, self.q.shape[1], total_kv)
        score.sinks(call, options['sinks'], sizes)
        score.dropout(call, options['dropout_p'], options['dropout_seed'], options['dropout_offset'])
        score.rng_state(call, options['rng_state'])
        if options['dropout_fixed']:
            call.problem.dropout_p = options['dropout_p']
        if self.paged:
            score.pages(call, options['pages'], options['page_offsets'], self.k.shape[0], self.k.shape[2], sizes)
        for name in 'kv':
            score.scales(call, name, getattr(self, name), options.get(f'{name}_scales'), options.get(f'{name}_zeros'),
                         options.get(f'{name}_scale_group') or 0)
        score.more(call, options['more'], sizes, options)
        score.lse_gradient(call, options.get('d_lse'), self.rows_shape())
        score.functions(call, options['score_mod'], options.get('score_mod_grad'), options['mask_mod'], options['data'])

    def output_shape(self, columns: int) -> Tuple[int, ...]:
        """Of O, in the caller's order of dimensions."""
        shape = (*self.q.shape[:-1], columns)
        return tuple(shape[i] for i in _ORDERS[self.layout])

    def rows_shape(self) -> Tuple[int, ...]:
        return self.q.shape[:-1]


def _run(found: _Arguments, inputs: Sequence[Any], outputs: Sequence[Any], queue: Any, device: Optional[Device],
         wait_for: Sequence[Any]) -> None:
    first = found.options['first_event']
    if queue is None:
        for name, given in (('wait_for', wait_for), ('first_event', first is not None)):
            if given:
                raise errors.ArgumentError(f'{name} is given, and no argument is an array of pyopencl: leave it out')
        found.call.run(device or default_device())
        return
    plain.check_queue(queue, wait_for)
    device = calls.device_of(queue, device)
    found.call.wants_first = first is not None
    event = found.call.run(device, queue.int_ptr, arrays.events_of(inputs, wait_for))
    if first is not None:
        first.append(arrays.event_of(found.call.first_event.value))
    arrays.hand_event(outputs, event)


def attention(q: Any,
              k: Any,
              v: Any,
              *,
              layout: str = 'bhnd',
              causal: Union[bool, str] = False,
              scale: Optional[float] = None,
              window: Optional[Tuple[int, int]] = None,
              softcap: float = 0.0,
              alibi: Any = None,
              bias: Any = None,
              bias_slopes: Any = None,
              mask: Any = None,
              block_mask: Any = None,
              block_size: Optional[Tuple[int, int]] = None,
              key_lengths: Any = None,
              query_lengths: Any = None,
              row_shifts: Any = None,
              tree_mask: Any = None,
              window_corner: Optional[str] = None,
              sink_keys: int = 0,
              cu_seqlens_q: Any = None,
              cu_seqlens_kv: Any = None,
              max_n_q: Optional[int] = None,
              max_n_kv: Optional[int] = None,
              sinks: Any = None,
              dropout_p: float = 0.0,
              dropout_seed: int = 0,
              dropout_offset: int = 0,
              dropout_fixed: bool = False,
              rng_state: Any = None,
              pages: Any = None,
              page_offsets: Any = None,
              k_scales: Any = None,
              k_zeros: Any = None,
              v_scales: Any = None,
              v_zeros: Any = None,
              k_scale_group: int = 0,
              v_scale_group: int = 0,
              k_format: Optional[str] = None,
              v_format: Optional[str] = None,
              score_mod: Optional[str] = None,
              mask_mod: Optional[str] = None,
              data: Any = None,
              out: Any = None,
              out_dtype: Optional[str] = None,
              return_lse: bool = False,
              return_ml: bool = False,
              statistics: Optional[Dict[str, Any]] = None,
              kv_chunk: Optional[int] = None,
              progress: Optional[Callable[[int, int], Any]] = None,
              cancel: Optional[Callable[[int, int], Any]] = None,
              max_device_bytes: int = 0,
              splits: Optional[int] = None,
              split_keys: int = 0,
              packing: Optional[str] = None,
              expected: Optional[Mapping[str, float]] = None,
              skeleton: Optional[str] = None,
              b_r: int = 0,
              b_c: int = 0,
              work_group_size: int = 0,
              knobs: Optional[str] = None,
              device: Optional[Device] = None,
              queue: Any = None,
              wait_for: Sequence[Any] = (),
              first_event: Optional[List[Any]] = None,
              **more: Any) -> Any:
    """O = softmax(modified(scale Q K^T)) V, on the arrays where they lie.

    q, k, v         arrays of NumPy, of pyopencl, or tensors of PyTorch on the CPU: float32, float16 or bfloat16 (of
                    NumPy: ml_dtypes.bfloat16, or uint16 that holds the bits), each of its own type
    layout          'bhnd' or 'bnhd': batch, heads, rows, columns; 'hnd' or 'nhd': packed sequences, with cu_seqlens_*
    causal          False; True or 'bottom-right' (the last row sees the last key); 'top-left' (PyTorch's)
    scale           None: 1 / sqrt(d)
    window          (left, right): how many keys a row sees to each side of its own; -1: all
    softcap         softcap * tanh(score / softcap); 0: none
    alibi           slopes [heads] or [batch, heads]
    bias, mask      [batch, heads, n_q, n_kv], or what broadcasts to it; a mask is not 0 where a row sees a key
    bias_slopes     [heads]: what each head multiplies the bias by
    block_mask      [batch, heads, blocks of rows, blocks of keys], or (offsets, columns) as CSR; block_size (rows,
                    keys)
    key_lengths     [batch]: keys that each batch element has; query_lengths: rows; those beyond are 0, and stay as they
                    are in `out`
    row_shifts      [batch]: row i has its place at key i + row_shifts[b], whatever the lengths are
    tree_mask       bool [.., n_q, t], or what broadcasts to it: which of the last t keys a row sees
    window_corner   'bottom-right' or 'top-left': what a window is aligned by; None: as all else
    sink_keys       so many first keys of a sequence, which a window does not hide
    cu_seqlens_*    [sequences + 1]: where packed sequences begin; max_n_*: the longest one's length, if that is known
    sinks           [heads]: a logit without a value
    dropout_*       dropout_p is the share of weights that are dropped, seed and offset decide which; dropout_fixed
                    compiles the share in
    rng_state       uint64 [2]: seed and offset of dropout, which kernels read when they run; dropout_seed is 0 then
    pages           [batch, pages of a sequence]: k and v are pools of pages, [pages, heads, keys of a page, d] in the
                    order of `layout`; with page_offsets [batch + 1] the numbers are compressed, and max_n_kv says how
                    many keys
    k_format, v_format    of k and v whose rows are bytes (uint8) of blocks: 'int4', 'q8_0', 'q4_0' (the last two are
                    ggml's); None: what the array is of. include/clattn/problem.h has what blocks are
    k_scales, v_scales    of k and v that are int8, int4 or float8 (e4m3fn, e5m2): [batch, kv_heads, n_kv, groups] or
                    what broadcasts to it (of pages [pages, kv_heads, keys of a page, groups]); an element is
                    (x - zero) * scale, with k_zeros and v_zeros for int8 and int4 alone; k_scale_group and
                    v_scale_group elements of a row have one scale, 0: all
    score_mod, mask_mod   functions of your own in OpenCL C, and their `data`, float32: include/clattn/problem.h
    out             where O is to be written, of any of the three types; else a new array, of out_dtype ('float32',
                    'float16' or 'bfloat16') or of q's type
    return_lse      also answer with LSE [batch, heads, n_q], float32; return_ml: with the maxima m and the sums l, too
    statistics      arrays that LSE, m and l are to be written to, by the names 'lse', 'm' and 'l'
    kv_chunk        keys that are on the device at a time, for K and V larger than its memory; max_device_bytes: the
                    most of that memory which is taken. Arrays of the host are then copied
    progress, cancel    called with (keys done, keys) as pieces are done; what cancel answers, if it is true, or an
                    exception of either, ends the call, and outputs are as they were
    splits, split_keys, skeleton, b_r, b_c, work_group_size, knobs, packing ('never' or 'always')
                    what is planned otherwise: include/clattn/problem.h
    expected        what calls will have, as far as it is known, by the names 'n_q', 'n_kv', 'heads', 'kv_heads' (both
                    of all batch elements) and 'density': plans differ by it, results do not
    device          None: default_device(), or the device of the queue
    queue, wait_for a pyopencl.CommandQueue (None: that of the arrays) and events to wait for. The call does not wait:
                    the outputs carry its event; first_event is a list that gets that of its first command
    more            values of further features, each by its name in struct clattn_score_more (include/clattn/score.h)

    Answers with O, or a tuple (O, LSE, m, l) of what was asked for. Raises ArgumentError, DtypeError or Error."""
    options = dict(locals())
    inputs = [q, k, v, bias, mask, alibi, sinks, block_mask, key_lengths, cu_seqlens_q, cu_seqlens_kv, pages, data]
    for name in ('q', 'k', 'v'):
        options.pop(name)
    views.refuse_grad([('q', q), ('k', k), ('v', v), ('bias', bias), ('sinks', sinks)])
    queue = arrays.queue_of([q, k, v, out], queue)
    with _NAMES:
        found, out, extra = _forward(q, k, v, options, queue)
        _run(found, inputs, [out, *extra, *(statistics or {}).values()], queue, device, wait_for)
    return (out, *extra) if extra else out


def _forward(q: Any, k: Any, v: Any, options: Dict[str, Any], queue: Any) -> Tuple[_Arguments, Any, List[Any]]:
    """The call, O and what else there is of new arrays."""
    found = _Arguments(q, k, v, options, False)
    out, statistics = options['out'], options['statistics']
    if out is None:
        name = options['out_dtype']
        kind = {None: found.q.dtype, 'float32': 'fp32', 'float16': 'fp16', 'bfloat16': 'bf16'}.get(name)
        if kind is None:
            raise errors.ArgumentError(
                f'out_dtype is {name!r}: it is None (the type of q), "float32", "float16" or "bfloat16"')
        zero = options['query_lengths'] is not None
        out = arrays.new(q, found.output_shape(found.v.shape[-1]), kind, queue, zero)
    o = found.ordered(out, 'out', True)
    if o.shape != (*found.q.shape[:-1], found.v.shape[-1]):
        raise errors.ArgumentError(
            f'out has shape {tuple(out.shape)}: it must have {found.output_shape(found.v.shape[-1])}')
    if o.dtype != found.q.dtype:
        found.call.problem.o_type = views.OPERAND_TYPES[o.dtype]
    found.call.tensors['o'] = o
    found.call.outputs.append('o')
    names = ['lse'] * options['return_lse'] + ['m', 'l'] * options['return_ml']
    extra = rows.new_statistics(found, q, queue, names)
    rows.take_statistics(found, statistics or {})
    return found, out, extra


def _defaults(of: Callable[..., Any]) -> Dict[str, Any]:
    keywords = inspect.signature(of).parameters.values()
    return {'more': {}, **{known.name: known.default for known in keywords if known.kind is known.KEYWORD_ONLY}}


def forward_call(q: Any, k: Any, v: Any, **options: Any) -> calls.Call:
    """What attention() runs with these arguments."""
    return _forward(q, k, v, {**_defaults(attention), **options}, None)[0].call


def attention_backward(d_o: Any,
                       q: Any,
                       k: Any,
                       v: Any,
                       o: Any,
                       *,
                       lse: Any = None,
                       m: Any = None,
                       l: Any = None,
                       d_lse: Any = None,
                       need: Sequence[str] = ('q', 'k', 'v'),
                       layout: str = 'bhnd',
                       causal: Union[bool, str] = False,
                       scale: Optional[float] = None,
                       window: Optional[Tuple[int, int]] = None,
                       softcap: float = 0.0,
                       alibi: Any = None,
                       bias: Any = None,
                       bias_slopes: Any = None,
                       mask: Any = None,
                       block_mask: Any = None,
                       block_size: Optional[Tuple[int, int]] = None,
                       key_lengths: Any = None,
                       query_lengths: Any = None,
                       row_shifts: Any = None,
                       tree_mask: Any = None,
                       window_corner: Optional[str] = None,
                       cu_seqlens_q: Any = None,
                       cu_seqlens_kv: Any = None,
                       max_n_q: Optional[int] = None,
                       max_n_kv: Optional[int] = None,
                       sinks: Any = None,
                       dropout_p: float = 0.0,
                       dropout_seed: int = 0,
                       dropout_offset: int = 0,
                       dropout_fixed: bool = False,
                       rng_state: Any = None,
                       score_mod: Optional[str] = None,
                       score_mod_grad: Optional[str] = None,
                       mask_mod: Optional[str] = None,
                       data: Any = None,
                       unordered: bool = False,
                       kv_chunk: Optional[int] = None,
                       progress: Optional[Callable[[int, int], Any]] = None,
                       cancel: Optional[Callable[[int, int], Any]] = None,
                       max_device_bytes: int = 0,
                       out: Optional[Gradients] = None,
                       expected: Optional[Mapping[str, float]] = None,
                       skeleton: Optional[str] = None,
                       b_r: int = 0,
                       b_c: int = 0,
                       work_group_size: int = 0,
                       knobs: Optional[str] = None,
                       device: Optional[Device] = None,
                       queue: Any = None,
                       wait_for: Sequence[Any] = (),
                       first_event: Optional[List[Any]] = None,
                       **more: Any) -> Gradients:
    """The gradients of a loss by q, k, v, a bias and sinks (`need` names those wanted), from that by O, d_o.

    o, and either m and l (exact) or lse, are what attention() gave with the same arguments (return_ml, return_lse);
    d_lse is the gradient of the loss by LSE, where it depends on that, too; score_mod_grad is the derivative of a
    score_mod. `unordered` allows sums in any order, which is faster on some devices. The gradient of a bias that was
    broadcast is summed over batch, heads and rows, and has the keys of the call. `out` has arrays that the gradients
    by q, k and v are to be written to, where it has them. The rest as in attention()."""
    options = dict(locals())
    inputs = [
        d_o, d_lse, q, k, v, o, lse, m, l, bias, mask, alibi, sinks, block_mask, key_lengths, cu_seqlens_q,
        cu_seqlens_kv, data
    ]
    for name in ('d_o', 'q', 'k', 'v', 'o'):
        options.pop(name)
    queue = arrays.queue_of([q, k, v], queue)
    found, made = _backward(d_o, q, k, v, o, options, queue)
    _run(found, inputs, list(made.values()), queue, device, wait_for)
    return Gradients(**made)


def _backward(d_o: Any, q: Any, k: Any, v: Any, o: Any, options: Dict[str, Any],
              queue: Any) -> Tuple[_Arguments, Dict[str, Any]]:
    """The call, and the arrays of gradients."""
    lse, m, l, need = (options.pop(name) for name in ('lse', 'm', 'l', 'need'))
    unknown = set(need) - set(Gradients._fields)
    if unknown:
        raise errors.ArgumentError(f'need has {sorted(unknown)}: it names some of {", ".join(Gradients._fields)}')
    out = options['out'] or Gradients()
    found = _Arguments(q, k, v, options, True)
    found.call.tensors.update(o=found.ordered(o, 'o'), d_o=found.ordered(d_o, 'd_o'))
    rows.check(found, m, l, lse)
    return found, _new_gradients(found, q, k, v, need, out, queue)


def backward_call(d_o: Any, q: Any, k: Any, v: Any, o: Any, **options: Any) -> Tuple[calls.Call, Gradients]:
    """What attention_backward() runs with these arguments, and its answer."""
    found, made = _backward(d_o, q, k, v, o, {**_defaults(attention_backward), **options}, None)
    return found.call, Gradients(**made)


def _written(view: View, like: View) -> View:
    """The view of a gradient, if it is of the type and the shape of what it is the gradient by."""
    if (view.dtype, view.shape) != (like.dtype, like.shape):
        raise errors.ArgumentError(f'{view.name} is {view.dtype} of shape {view.shape}: it must be {like.dtype} of '
                                   f'{like.shape}')
    return view


def _new_gradients(found: _Arguments, q: Any, k: Any, v: Any, need: Sequence[str], out: Gradients,
                   queue: Any) -> Dict[str, Any]:
    call, made = found.call, {}
    for name, like in (('q', q), ('k', k), ('v', v)):
        if name in need:
            of: View = getattr(found, name)
            zero = found.options['query_lengths'] is not None
            given = getattr(out, name)
            made[name] = arrays.new(like, tuple(like.shape), of.dtype, queue, zero) if given is None else given
            call.tensors['d_' + name] = _written(found.ordered(made[name], 'd_' + name, True), of)
    for name, feature in (('bias', _abi.CLATTN_BIAS), ('sinks', _abi.CLATTN_SINKS)):
        if name in need and not call.problem.features & feature:
            raise errors.ArgumentError(f'need has "{name}", and there is none: leave it out')
    if 'bias' in need:
        view = call.tensors['bias']
        shape = [1 if stride == 0 else n for n, stride in zip(view.shape[:3], view.strides)] + list(view.shape[3:])
        made['bias'] = arrays.new(q, shape, found.q.dtype, queue)
        call.tensors['d_bias'] = views.view(made['bias'], 'd_bias', True).expand(view.shape)
    if 'sinks' in need:
        made['sinks'] = arrays.new(q, (found.sizes.heads, ), 'fp32', queue)
        call.tensors['d_sinks'] = views.view(made['sinks'], 'd_sinks', True)
    call.outputs += ['d_' + name for name in made]
    return made
