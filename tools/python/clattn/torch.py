# SPDX-License-Identifier: BSD-2-Clause
"""Attention as an operator of PyTorch, on tensors of the CPU where they lie: gradients, fake tensors, torch.compile."""
from typing import Any, Callable, Dict, Hashable, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import dispatch, errors, openmp, plain, score, views
from .attention import Gradients, backward_call, forward_call
from .bound import Bound
from .call import Call
from .device import Device, default_device

_NONE, _LSE, _ALL = 0, 1, 2

# Where `layout` stands among the arguments of forward; backward has d_o before q, and o, m and l before the bias.
_LAYOUT = 11


def _rows_before_heads(shape: Sequence[Any], like: Tensor) -> Tensor:
    """A new tensor of [batch, heads, n, d] whose memory is [batch, n, heads, d], which models go on with."""
    batch, heads, n, d = shape
    return like.new_empty((batch, n, heads, d)).transpose(1, 2)


def _packed(layout: str) -> bool:
    return len(layout) == 3


def _shapes(q: Tensor, v: Tensor, layout: str) -> Tuple[Tuple[Any, ...], Tuple[Any, ...]]:
    """Of O and of LSE."""
    o = (*q.shape[:-1], v.shape[-1])
    if layout in ('bhnd', 'hnd'):
        return o, tuple(q.shape[:-1])
    return o, (q.shape[0], q.shape[2], q.shape[1]) if layout == 'bnhd' else (q.shape[1], q.shape[0])


def _outputs(q: Tensor, v: Tensor, layout: str, statistics: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    o_shape, rows = _shapes(q, v, layout)
    o = _rows_before_heads(o_shape, q) if layout == 'bhnd' else q.new_empty(o_shape)
    lse, m, l = (q.new_empty(rows if statistics >= level else (0, ), dtype=torch.float32)
                 for level in (_LSE, _ALL, _ALL))
    return o, lse, m, l


def _options(layout: str, causal: str, scale: Optional[float], window: Sequence[int], softcap: float, dropout_p: float,
             seed: Optional[Tensor], bias: Optional[Tensor], mask: Optional[Tensor], alibi: Optional[Tensor],
             sinks: Optional[Tensor], key_lengths: Optional[Tensor], cu_q: Optional[Tensor], cu_kv: Optional[Tensor],
             max_n: Sequence[int]) -> Dict[str, Any]:
    given = {
        'layout': layout, 'causal': causal or False, 'scale': scale, 'window': tuple(window), 'softcap': softcap,
        'dropout_p': dropout_p, 'dropout_seed': 0 if seed is None else int(seed.item()), 'bias': bias, 'mask': mask,
        'alibi': alibi, 'sinks': sinks, 'key_lengths': key_lengths
    }
    if _packed(layout):
        given.update(cu_seqlens_q=cu_q, cu_seqlens_kv=cu_kv, max_n_q=max_n[0], max_n_kv=max_n[1])
    return given


# What a call's numbers are looked at for, or put into another type, before it.
_READ = ('alibi', 'sinks', 'key_lengths', 'cu_seqlens_q', 'cu_seqlens_kv')


def _key(tensors: Mapping[str, Tensor], options: Mapping[str, Any], wanted: Sequence[str]) -> Optional[Hashable]:
    """All that a call depends on but where tensors lie, what they hold, and the seed of dropout. None where that is not
    all."""
    if any(options.get(name) is not None for name in _READ):
        return None
    return (tuple(wanted), *((name, x.dtype, x.shape, x.stride()) for name, x in tensors.items()),
            *(options[name] for name in ('layout', 'causal', 'scale', 'window', 'softcap', 'dropout_p')))


def _bind(device: Device, call: Call, tensors: Mapping[str, Tensor]) -> Optional[Bound]:
    """The call for tensors that lie anywhere; None if it does not use them where they lie."""
    if not call.runs_in_place(device) or any(name not in tensors or view.address != tensors[name].data_ptr()
                                             for name, view in call.tensors.items()):
        return None
    return call.bind(device)


def _run(tensors: Mapping[str, Tensor], options: Mapping[str, Any], wanted: Sequence[str],
         make: Callable[[], Call]) -> None:
    """Computes what make() describes, of which `wanted` are the results; calls that differ in addresses alone are
    described once."""
    device = default_device()
    with openmp.resting(device, tensors['q'], tensors['k'], options['layout']):
        key = _key(tensors, options, wanted)
        bound = None if key is None else device.bound(key)
        if bound is None:
            call = make()
            bound = None if key is None else _bind(device, call, tensors)
            if bound is None:
                call.run(device)
                return
            device.keep(key, bound)
        numbers = {'dropout_seed': options['dropout_seed'] & (2**64 - 1)} if options['dropout_p'] else None
        bound.run(device, [tensors[slot.name].data_ptr() for slot in bound.slots], numbers)


def _forward(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], mask: Optional[Tensor], alibi: Optional[Tensor],
             sinks: Optional[Tensor], key_lengths: Optional[Tensor], cu_q: Optional[Tensor], cu_kv: Optional[Tensor],
             seed: Optional[Tensor], layout: str, causal: str, scale: Optional[float], window: List[int],
             softcap: float, dropout_p: float, max_n: List[int],
             statistics: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    options = _options(layout, causal, scale, window, softcap, dropout_p, seed, bias, mask, alibi, sinks, key_lengths,
                       cu_q, cu_kv, max_n)
    o, lse, m, l = _outputs(q, v, layout, statistics)
    known = dict(zip(('lse', 'm', 'l'), (lse, m, l)[:(0, 1, 3)[statistics]]))
    given = {'q': q, 'k': k, 'v': v, 'bias': bias, 'mask': mask}
    tensors = {name: x for name, x in given.items() if x is not None}
    with torch.no_grad():
        _run({**tensors, 'o': o, **known}, options, ('o', *known),
             lambda: forward_call(q, k, v, out=o, statistics=known, **options))
    return o, lse, m, l


@torch.library.custom_op('clattn::forward', mutates_args=(), device_types='cpu')
def forward(q: Tensor, k: Tensor, v: Tensor, bias: Optional[Tensor], mask: Optional[Tensor], alibi: Optional[Tensor],
            sinks: Optional[Tensor], key_lengths: Optional[Tensor], cu_q: Optional[Tensor], cu_kv: Optional[Tensor],
            seed: Optional[Tensor], layout: str, causal: str, scale: Optional[float], window: List[int], softcap: float,
            dropout_p: float, max_n: List[int], statistics: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """O, and LSE, m and l as far as `statistics` asks for them."""
    return _forward(q, k, v, bias, mask, alibi, sinks, key_lengths, cu_q, cu_kv, seed, layout, causal, scale, window,
                    softcap, dropout_p, max_n, statistics)


@forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *others: Any) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    return _outputs(q, v, others[_LAYOUT - 3], others[-1])


def _gradient_of(x: Tensor, layout: str) -> Tensor:
    """A new tensor for the gradient by x, in the order of memory in which models go on with it."""
    return _rows_before_heads(x.shape, x) if layout == 'bhnd' else x.new_empty(x.shape)


def _backward(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, m: Tensor, l: Tensor, bias: Optional[Tensor],
              mask: Optional[Tensor], alibi: Optional[Tensor], sinks: Optional[Tensor], key_lengths: Optional[Tensor],
              cu_q: Optional[Tensor], cu_kv: Optional[Tensor], seed: Optional[Tensor], layout: str, causal: str,
              scale: Optional[float], window: List[int], softcap: float, dropout_p: float, max_n: List[int],
              need: List[bool], d_lse: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    options = _options(layout, causal, scale, window, softcap, dropout_p, seed, bias, mask, alibi, sinks, key_lengths,
                       cu_q, cu_kv, max_n)
    names = [name for name, wanted in zip(Gradients._fields, need) if wanted]
    made = Gradients(**{name: _gradient_of(x, layout) for name, x in (('q', q), ('k', k), ('v', v)) if name in names})
    given = {'q': q, 'k': k, 'v': v, 'o': o, 'd_o': d_o, 'm': m, 'l': l, 'bias': bias, 'mask': mask, 'd_lse': d_lse,
             'd_q': made.q, 'd_k': made.k, 'd_v': made.v}

    def make() -> Call:
        nonlocal made
        call, made = backward_call(d_o, q, k, v, o, m=m, l=l, d_lse=d_lse, need=names, out=made, **options)
        return call

    with torch.no_grad():
        _run({name: x for name, x in given.items() if x is not None}, options, names, make)
        d_bias, d_sinks = made.bias, made.sinks
        if d_bias is not None and bias is not None:
            d_bias = d_bias.sum_to_size(bias.shape).to(bias.dtype).clone()
        if d_sinks is not None and sinks is not None:
            d_sinks = d_sinks.to(sinks.dtype)
    d_q, d_k, d_v, d_bias, d_sinks = (q.new_empty((0, )) if x is None else x
                                      for x in (made.q, made.k, made.v, d_bias, d_sinks))
    return d_q, d_k, d_v, d_bias, d_sinks


@torch.library.custom_op('clattn::backward', mutates_args=(), device_types='cpu')
def backward(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, m: Tensor, l: Tensor, bias: Optional[Tensor],
             mask: Optional[Tensor], alibi: Optional[Tensor], sinks: Optional[Tensor], key_lengths: Optional[Tensor],
             cu_q: Optional[Tensor], cu_kv: Optional[Tensor], seed: Optional[Tensor], layout: str, causal: str,
             scale: Optional[float], window: List[int], softcap: float, dropout_p: float, max_n: List[int],
             need: List[bool], d_lse: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients by q, k, v, bias and sinks; those that are not needed are empty."""
    return _backward(d_o, q, k, v, o, m, l, bias, mask, alibi, sinks, key_lengths, cu_q, cu_kv, seed, layout, causal,
                     scale, window, softcap, dropout_p, max_n, need, d_lse)


@backward.register_fake
def _(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, m: Tensor, l: Tensor, bias: Optional[Tensor],
      mask: Optional[Tensor], alibi: Optional[Tensor], sinks: Optional[Tensor], *others: Any) -> Tuple[Tensor, ...]:
    layout, need = others[_LAYOUT - 7], others[-2]
    made = [_gradient_of(x, layout) if wanted else q.new_empty((0, )) for x, wanted in zip((q, k, v), need)]
    made += [q.new_empty((0, )) if x is None or not wanted else x.new_empty(x.shape)
             for x, wanted in zip((bias, sinks), need[3:])]
    return tuple(made)


def _setup(ctx: Any, inputs: Tuple[Any, ...], output: Tuple[Tensor, ...]) -> None:
    o, lse, m, l = output
    ctx.save_for_backward(*inputs[:_LAYOUT], o, m, l)
    ctx.numbers, ctx.statistics = inputs[_LAYOUT:18], inputs[18]
    ctx.mark_non_differentiable(m, l)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, d_o: Optional[Tensor], d_lse: Optional[Tensor], *others: Any) -> Tuple[Any, ...]:
    if d_o is None and d_lse is None:
        return (None, ) * 19
    if ctx.statistics != _ALL:
        raise errors.ArgumentError('statistics is not 2: gradients need m and l of the forward pass')
    q, k, v, bias, mask, alibi, sinks, key_lengths, cu_q, cu_kv, seed, o, m, l = ctx.saved_tensors
    d_o = torch.zeros_like(o) if d_o is None else d_o
    need = [ctx.needs_input_grad[i] for i in (0, 1, 2, 3, 6)]
    if ctx.needs_input_grad[5]:
        raise errors.ArgumentError('alibi requires a gradient, which there is none of: detach it')
    d_lse = None if d_lse is None else d_lse.contiguous()
    given = (d_o, q, k, v, o, m, l, bias, mask, alibi, sinks, key_lengths, cu_q, cu_kv, seed)
    is_plain = dispatch.is_plain((*given, d_lse)) and not torch.is_grad_enabled()
    run: Callable[..., Any] = _backward if is_plain else backward
    made = run(*given, *ctx.numbers, need, d_lse)
    d_q, d_k, d_v, d_bias, d_sinks = (x if wanted else None for x, wanted in zip(made, need))
    return (d_q, d_k, d_v, d_bias, None, None, d_sinks, *(None, ) * 12)


forward.register_autograd(_gradients, setup_context=_setup)


class _Attention(torch.autograd.Function):
    """What PyTorch makes of the operator, without the 0.2 ms that its dispatcher takes for one in Python."""
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tuple[Tensor, ...]:
        output = _forward(*arguments)
        _setup(ctx, arguments, output)
        return output

    backward = staticmethod(_gradients)


def _operator(inputs: Sequence[Optional[Tensor]], statistics: int) -> Callable[..., Tuple[Tensor, ...]]:
    """The operator for such tensors, as short as may be."""
    if not dispatch.is_plain(inputs) or (statistics == _ALL and not dispatch.records()):
        return forward
    return _Attention.apply if statistics == _ALL else _forward


def _tensor(x: Any, dtype: torch.dtype) -> Optional[Tensor]:
    return x if x is None or isinstance(x, Tensor) else torch.as_tensor(x, dtype=dtype)


def _seed(dropout_p: float, given: Any) -> Optional[Tensor]:
    if not dropout_p:
        return None
    if given is None:
        return torch.randint(2**62, (), dtype=torch.int64)
    return _tensor(given if isinstance(given, Tensor) else plain.whole(given, 'dropout_seed'), torch.int64)


def _check(named: Sequence[Tuple[str, Any]]) -> None:
    for name, x in named:
        if x is None:
            continue
        if not isinstance(x, Tensor):
            raise errors.DtypeError(f'{name} is a {type(x).__name__}: beside tensors of PyTorch it must be one, too')
        if x.device.type not in ('cpu', 'meta'):
            raise views.refuse_device(name, str(x.device))
        if x.dtype == torch.float64:
            raise views.refuse_fp64(name, str(x.dtype))


def attention(q: Tensor,
              k: Tensor,
              v: Tensor,
              *,
              layout: str = 'bhnd',
              causal: Any = False,
              scale: Optional[float] = None,
              window: Optional[Sequence[int]] = None,
              softcap: float = 0.0,
              alibi: Any = None,
              bias: Optional[Tensor] = None,
              mask: Optional[Tensor] = None,
              sinks: Optional[Tensor] = None,
              key_lengths: Any = None,
              cu_seqlens_q: Any = None,
              cu_seqlens_kv: Any = None,
              max_n_q: Optional[int] = None,
              max_n_kv: Optional[int] = None,
              dropout_p: float = 0.0,
              dropout_seed: Any = None,
              return_lse: bool = False) -> Any:
    """clattn.attention() of tensors, with gradients by q, k, v, bias and sinks, of O and of LSE, and known to
    torch.compile.

    Arguments are those of clattn.attention(). With layout 'hnd' or 'nhd' max_n_q and max_n_kv must be given.
    dropout_seed is a number or an int64 tensor; None: by PyTorch's generator."""
    _check([('q', q), ('k', k), ('v', v), ('bias', bias), ('mask', mask), ('sinks', sinks)])
    if _packed(layout) and (max_n_q is None or max_n_kv is None):
        raise errors.ArgumentError(
            f'max_n_q is {max_n_q}, max_n_kv {max_n_kv}: with layout {layout} both must be given')
    score.causal_of(causal)
    scale = scale if scale is None else plain.number(scale, 'scale')
    softcap, dropout_p = plain.number(softcap, 'softcap'), plain.number(dropout_p, 'dropout_p')
    limits = list((-1, -1) if window is None else plain.pair(window, 'window'))
    return_lse, seed = plain.flag(return_lse, 'return_lse'), _seed(dropout_p, dropout_seed)
    learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (q, k, v, bias, sinks))
    statistics = _ALL if learns else _LSE if return_lse else _NONE
    aligned = {True: 'bottom-right', False: '', None: ''}.get(causal, causal)
    others = (_tensor(alibi, torch.float32), sinks, _tensor(key_lengths, torch.int32),
              _tensor(cu_seqlens_q, torch.int32), _tensor(cu_seqlens_kv, torch.int32), seed)
    run = _operator((q, k, v, bias, mask, *others), statistics)
    max_n = [plain.whole(max_n_q or 0, 'max_n_q'), plain.whole(max_n_kv or 0, 'max_n_kv')]
    o, lse, _, _ = run(q, k, v, bias, mask, *others, layout, aligned, scale, limits, softcap, dropout_p, max_n,
                       statistics)
    return (o, lse) if return_lse else o
