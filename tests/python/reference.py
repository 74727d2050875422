# SPDX-License-Identifier: BSD-2-Clause
"""Attention in float64, by its formula: what the package's results are held to."""
import numpy


def shifted(n_q, n_kv, causal):
    """The key that row i has for its own, of all rows."""
    return numpy.arange(n_q)[:, None] + (n_kv - n_q if causal != 'top-left' else 0)


def seen(n_q, n_kv, causal, window):
    """Which pairs are seen."""
    own, keys = shifted(n_q, n_kv, causal), numpy.arange(n_kv)
    pairs = numpy.ones((n_q, n_kv), bool)
    if causal:
        pairs &= keys <= own
    if window[0] >= 0:
        pairs &= keys >= own - window[0]
    if window[1] >= 0:
        pairs &= keys <= own + window[1]
    return pairs


def attention(q,
              k,
              v,
              causal=False,
              window=(-1, -1),
              scale=None,
              softcap=0.0,
              alibi=None,
              bias=None,
              mask=None,
              sinks=None,
              keep=None,
              dropped=0.0):
    """O and LSE of q [heads, n_q, d], k and v [kv_heads, n_kv, ..]; `keep` is what dropout leaves."""
    q, k, v = (numpy.asarray(x, numpy.float64) for x in (q, k, v))
    k, v = (numpy.repeat(x, q.shape[0] // k.shape[0], 0) for x in (k, v))
    scores = q @ k.swapaxes(1, 2) * (q.shape[-1]**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * numpy.tanh(scores / softcap)
    if alibi is not None:
        distance = abs(shifted(q.shape[1], k.shape[1], causal) - numpy.arange(k.shape[1]))
        scores = scores - numpy.asarray(alibi, numpy.float64)[:, None, None] * distance
    if bias is not None:
        scores = scores + numpy.asarray(bias, numpy.float64)
    pairs = seen(q.shape[1], k.shape[1], causal, window) & (True if mask is None else numpy.asarray(mask, bool))
    scores = numpy.where(pairs, scores, -numpy.inf)
    most = scores.max(-1, initial=-numpy.inf)
    if sinks is not None:
        most = numpy.maximum(most, numpy.asarray(sinks, numpy.float64)[:, None])
    most = numpy.where(numpy.isfinite(most), most, 0)
    weights = numpy.exp(scores - most[..., None])
    total = weights.sum(-1)
    if sinks is not None:
        total = total + numpy.exp(numpy.asarray(sinks, numpy.float64)[:, None] - most)
    with numpy.errstate(divide='ignore'):
        lse = most + numpy.log(total)
    if keep is not None:
        weights = numpy.where(keep, weights / (1 - dropped), 0)
    return weights / numpy.where(total > 0, total, 1)[..., None] @ v, lse


def each(q, k, v, **options):
    """The same for [batch, heads, n, d]; bias and mask are of each batch element."""
    shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    parts = {
        name: numpy.broadcast_to(options.pop(name), shape)
        for name in ('bias', 'mask') if options.get(name) is not None
    }
    done = [
        attention(q[b], k[b], v[b], **options, **{name: x[b]
                                                  for name, x in parts.items()}) for b in range(q.shape[0])
    ]
    return tuple(numpy.stack(x) for x in zip(*done))
