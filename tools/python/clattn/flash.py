# SPDX-License-Identifier: BSD-2-Clause
"""The functions of flash-attn, by their names and with their alignment: bottom-right, the last row sees the last
key."""
from typing import Any, Optional, Sequence, Tuple

from . import errors, kvcache, plain, views
from .attention import attention
from .device import Device
from .sdpa import new_seed

# What attention() calls otherwise.
_SAID = {
    'scale': 'softmax_scale', 'window': 'window_size', 'alibi': 'alibi_slopes', 'cu_seqlens_kv': 'cu_seqlens_k',
    'max_n_q': 'max_seqlen_q', 'max_n_kv': 'max_seqlen_k', 'pages': 'block_table', 'o': 'out'
}
_NAMES = errors.named(**_SAID)
_NAMES_OF_CACHES = errors.named(k='k_cache', v='v_cache', key_lengths='cache_seqlens', splits='num_splits',
                                return_lse='return_softmax_lse', **_SAID)


def _compute(q: Any, k: Any, v: Any, options: dict, dropout_seed: Optional[int], out: Any, device: Optional[Device],
             queue: Any, wait_for: Sequence[Any]) -> Any:
    with _NAMES:
        if views.is_torch(q) and out is None and device is None:
            from . import torch as operator
            return operator.attention(q, k, v, dropout_seed=dropout_seed, **options)
        seed = new_seed() if options['dropout_p'] and dropout_seed is None else dropout_seed or 0
        return attention(q, k, v, dropout_seed=seed, out=out, device=device, queue=queue, wait_for=wait_for, **options)


def _refuse_probs(return_attn_probs: bool) -> None:
    if return_attn_probs:
        raise errors.ArgumentError('return_attn_probs is True: the matrix of weights is never in memory; '
                                   'return_lse=True answers with LSE, from which they follow')


def flash_attn_func(q: Any,
                    k: Any,
                    v: Any,
                    dropout_p: float = 0.0,
                    softmax_scale: Optional[float] = None,
                    causal: bool = False,
                    window_size: Tuple[int, int] = (-1, -1),
                    softcap: float = 0.0,
                    alibi_slopes: Any = None,
                    deterministic: bool = False,
                    return_attn_probs: bool = False,
                    *,
                    return_lse: bool = False,
                    out: Any = None,
                    dropout_seed: Optional[int] = None,
                    device: Optional[Device] = None,
                    queue: Any = None,
                    wait_for: Sequence[Any] = ()) -> Any:
    """flash-attn's function: q [batch, n_q, heads, d], k and v [batch, n_kv, kv_heads, d].

    dropout_p          the share of weights that are dropped, from 0 to below 1
    softmax_scale      None: 1 / sqrt(d)
    causal             the last row sees the last key
    window_size        (left, right): how many keys a row sees to each side of its own; -1: all
    softcap            softcap * tanh(score / softcap); 0: none
    alibi_slopes       [heads] or [batch, heads]
    deterministic      whatever it says, gradients are added up in a fixed order
    return_attn_probs  is refused

    Beyond flash-attn's: return_lse answers with (O, LSE [batch, heads, n_q]); out, dropout_seed, device, queue and
    wait_for as in scaled_dot_product_attention()."""
    _refuse_probs(return_attn_probs)
    options = {
        'layout': 'bnhd', 'causal': causal, 'scale': softmax_scale, 'window': window_size, 'softcap': softcap,
        'alibi': alibi_slopes, 'dropout_p': dropout_p, 'return_lse': return_lse
    }
    return _compute(q, k, v, options, dropout_seed, out, device, queue, wait_for)


def flash_attn_varlen_func(q: Any,
                           k: Any,
                           v: Any,
                           cu_seqlens_q: Any,
                           cu_seqlens_k: Any,
                           max_seqlen_q: int,
                           max_seqlen_k: int,
                           dropout_p: float = 0.0,
                           softmax_scale: Optional[float] = None,
                           causal: bool = False,
                           window_size: Tuple[int, int] = (-1, -1),
                           softcap: float = 0.0,
                           alibi_slopes: Any = None,
                           deterministic: bool = False,
                           return_attn_probs: bool = False,
                           block_table: Any = None,
                           *,
                           return_lse: bool = False,
                           out: Any = None,
                           dropout_seed: Optional[int] = None,
                           device: Optional[Device] = None,
                           queue: Any = None,
                           wait_for: Sequence[Any] = ()) -> Any:
    """flash-attn's function of sequences that lie end to end: q [total_q, heads, d], k and v [total_kv, kv_heads, d];
    or, with block_table [sequences, pages], k and v [pages, keys of a page, kv_heads, d]. LSE is [heads, total_q].

    cu_seqlens_q, cu_seqlens_k   [sequences + 1], integers: where each begins in q and in k, and where the last one ends
    max_seqlen_q, max_seqlen_k   rows and keys of the longest, or more

    The rest as in flash_attn_func()."""
    _refuse_probs(return_attn_probs)
    options = {
        'layout': 'nhd', 'causal': causal, 'scale': softmax_scale, 'window': window_size, 'softcap': softcap,
        'alibi': alibi_slopes, 'dropout_p': dropout_p, 'return_lse': return_lse, 'cu_seqlens_q': cu_seqlens_q,
        'max_n_q': max_seqlen_q, 'max_n_kv': max_seqlen_k
    }
    if block_table is None:
        return _compute(q, k, v, {**options, 'cu_seqlens_kv': cu_seqlens_k}, dropout_seed, out, device, queue, wait_for)
    begins = views.host_array(views.scalars(cu_seqlens_k, 'cu_seqlens_k', 'int32'))
    if begins is None:
        raise errors.ArgumentError('cu_seqlens_k is on a device: with block_table it must be on the host')
    seed = new_seed() if dropout_p and dropout_seed is None else dropout_seed or 0
    with _NAMES:
        return attention(q,
                         k,
                         v,
                         pages=block_table,
                         key_lengths=begins[1:] - begins[:-1],
                         dropout_seed=seed,
                         out=out,
                         device=device,
                         queue=queue,
                         wait_for=wait_for,
                         **options)


def flash_attn_with_kvcache(q: Any,
                            k_cache: Any,
                            v_cache: Any,
                            k: Any = None,
                            v: Any = None,
                            rotary_cos: Any = None,
                            rotary_sin: Any = None,
                            cache_seqlens: Any = None,
                            cache_batch_idx: Any = None,
                            cache_leftpad: Any = None,
                            block_table: Any = None,
                            softmax_scale: Optional[float] = None,
                            causal: bool = False,
                            window_size: Tuple[int, int] = (-1, -1),
                            softcap: float = 0.0,
                            rotary_interleaved: bool = True,
                            alibi_slopes: Any = None,
                            num_splits: int = 0,
                            return_softmax_lse: bool = False,
                            *,
                            k_format: Optional[str] = None,
                            v_format: Optional[str] = None,
                            k_scales: Any = None,
                            k_zeros: Any = None,
                            v_scales: Any = None,
                            v_zeros: Any = None,
                            k_scale_group: int = 0,
                            v_scale_group: int = 0,
                            out: Any = None,
                            device: Optional[Device] = None,
                            queue: Any = None,
                            wait_for: Sequence[Any] = ()) -> Any:
    """flash-attn's function of decoding: q [batch, n_q, heads, d] against a cache of keys.

    k_cache, v_cache   [batch of the cache, most keys, kv_heads, d]; or, with block_table [batch, pages], pools of pages
                       [pages, keys of a page, kv_heads, d]
    k, v               [batch, n_new, kv_heads, d]: written to the cache behind its cache_seqlens keys first, in place
    rotary_cos, rotary_sin   [positions, half of the columns that are turned]: turns k and q by their positions; needs k
                       and v. rotary_interleaved: neighbours are a pair, else columns that are half of them apart
    cache_seqlens      keys that each element has, a number or [batch]; None: all
    cache_batch_idx    [batch]: which element of the cache each one has
    cache_leftpad      [batch]: the first key that counts
    num_splits         0: as planned
    k_format, k_scales, k_zeros, k_scale_group, v_*   of a cache of int8, float8, int4, q8_0 or q4_0, as in
                       attention(): [batch of the cache, or pages, kv_heads, keys, groups]. k and v are quantised on
                       the way: scales (and zeros) that each key has of its own are written, others are used as they
                       are: include/clattn/append.h

    Answers with O, and LSE [batch, heads, n_q] with return_softmax_lse. cache_seqlens, cache_batch_idx and
    cache_leftpad are on the host. There are no gradients. The rest as in flash_attn_func()."""
    plain.check({'device': device, 'wait_for': wait_for})
    formats = kvcache.Formats(k_format, v_format, k_scales, k_zeros, v_scales, v_zeros, k_scale_group, v_scale_group)
    cache = kvcache.Cache(k_cache, v_cache, cache_seqlens, cache_batch_idx, cache_leftpad, block_table, q.shape[0],
                          formats)
    if k is not None or v is not None or rotary_cos is not None or rotary_sin is not None:
        window = causal or plain.pair(window_size, 'window_size') != (-1, -1)
        turn = kvcache.rotary(rotary_cos, rotary_sin, rotary_interleaved, k)
        q = cache.append(q, k, v, turn, window, device, queue, wait_for)
    options = {
        'layout': 'bnhd', 'causal': causal, 'scale': softmax_scale, 'window': window_size, 'softcap': softcap,
        'alibi': alibi_slopes, 'splits': num_splits or None, 'return_lse': return_softmax_lse
    }
    with _NAMES_OF_CACHES:
        return attention(q,
                         k_cache,
                         v_cache,
                         out=out,
                         device=device,
                         queue=queue,
                         wait_for=wait_for,
                         **options,
                         **cache.options())
