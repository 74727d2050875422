# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's function of attention."""
from typing import Any, Optional, Sequence

from . import errors, plain, views
from .attention import attention
from .device import Device

_NAMES = errors.named(q='query', k='key', v='value', mask='attn_mask', bias='attn_mask', causal='is_causal', o='out')


def new_seed() -> int:
    """A seed by NumPy's generator, so that numpy.random.seed() settles what is dropped."""
    import numpy
    return int(numpy.random.randint(0, 2**62, dtype=numpy.int64))


def _four(x: Any) -> Any:
    """[batch, heads, n, d]: fewer dimensions get some of size 1, more are put together."""
    shape = tuple(x.shape)
    if len(shape) < 2:
        return x
    if len(shape) <= 3:
        return x.reshape((shape[0] if len(shape) == 3 else 1, 1, *shape[-2:]))
    return x if len(shape) == 4 else x.reshape((-1, *shape[-3:]))


def _mask_of(x: Any, query: Any) -> Any:
    """A mask in the four dimensions of _four()."""
    if x is None or len(x.shape) <= 2 or len(query.shape) == 4:
        return x
    if len(query.shape) < 4:
        return x.reshape((x.shape[0], 1, *x.shape[-2:]))
    lead = tuple(query.shape[:-3])
    if tuple(x.shape[:-3]) != lead:
        raise errors.ArgumentError(f'attn_mask has shape {tuple(x.shape)}: with more than four dimensions its leading '
                                   f'ones must be those of query, {lead}')
    return x.reshape((-1, *x.shape[-3:]))


def _check(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, enable_gqa: bool) -> None:
    for name, x in (('query', query), ('key', key), ('value', value)):
        if len(getattr(x, 'shape', ())) < 2 or len(x.shape) != len(query.shape):
            raise errors.ArgumentError(f'{name} has shape {tuple(getattr(x, "shape", ()))}: query, key and value have '
                                       'as many dimensions, two or more')
    for name, given in (('is_causal', is_causal), ('enable_gqa', enable_gqa)):
        plain.flag(given, name)
    if attn_mask is not None and is_causal:
        raise errors.ArgumentError('attn_mask is given and is_causal is True: one of them alone may be')
    if len(query.shape) >= 3 and key.shape[-3] != query.shape[-3] and not enable_gqa:
        raise errors.ArgumentError(f'key has {key.shape[-3]} heads, query {query.shape[-3]}, and enable_gqa is False: '
                                   'groups of heads that share keys need enable_gqa=True')


def scaled_dot_product_attention(query: Any,
                                 key: Any,
                                 value: Any,
                                 attn_mask: Any = None,
                                 dropout_p: float = 0.0,
                                 is_causal: bool = False,
                                 scale: Optional[float] = None,
                                 enable_gqa: bool = False,
                                 *,
                                 return_lse: bool = False,
                                 out: Any = None,
                                 dropout_seed: Optional[int] = None,
                                 device: Optional[Device] = None,
                                 queue: Any = None,
                                 wait_for: Sequence[Any] = ()) -> Any:
    """torch.nn.functional.scaled_dot_product_attention, on arrays of NumPy and pyopencl, too.

    query [.., heads, n_q, d], key and value [.., heads, n_kv, ..]. attn_mask is of bool (True: the row sees the key) or
    of a float type (added to scores) and broadcasts to [.., heads, n_q, n_kv]. dropout_p is the share of weights that
    are dropped. is_causal is aligned top-left, as PyTorch's: the first row sees the first key. scale None is
    1 / sqrt(d). enable_gqa allows fewer heads of key and value, which divide query's. A row that sees no key is 0.
    Tensors of PyTorch get gradients, also by a float attn_mask.

    Beyond PyTorch's: return_lse answers with (O, LSE); `out` takes O; dropout_seed settles what is dropped (None: by
    PyTorch's or NumPy's generator); device, queue and wait_for as in attention()."""
    _check(query, key, value, attn_mask, is_causal, enable_gqa)
    mask = attn_mask
    if mask is not None and not (views.is_torch(mask) or views.is_pyopencl(mask)):
        import numpy
        mask = numpy.asarray(mask)
    mask = _mask_of(mask, query)
    is_bool = mask is not None and str(mask.dtype) in ('bool', 'torch.bool')
    options = {
        'causal': 'top-left' if is_causal else False, 'scale': scale, 'dropout_p': dropout_p,
        'mask' if is_bool else 'bias': mask, 'return_lse': return_lse
    }
    q, k, v = _four(query), _four(key), _four(value)
    with _NAMES:
        if views.is_torch(query) and out is None and device is None:
            from . import torch as operator
            o = operator.attention(q, k, v, dropout_seed=dropout_seed, **options)
        else:
            seed = new_seed() if dropout_p and dropout_seed is None else dropout_seed or 0
            o = attention(q,
                          k,
                          v,
                          dropout_seed=seed,
                          out=None if out is None else _four(out),
                          device=device,
                          queue=queue,
                          wait_for=wait_for,
                          **options)
    shape = (*query.shape[:-1], value.shape[-1])
    if not return_lse:
        return _as(o, shape) if out is None else out
    return (_as(o[0], shape) if out is None else out), _as(o[1], shape[:-1])


def _as(x: Any, shape: Sequence[int]) -> Any:
    return x if tuple(x.shape) == tuple(shape) else x.reshape(tuple(shape))
