#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The Python package over a grid of the parameters of PyTorch's function and of flash-attn's, against the formula in
float64: shapes, types, masks, alignments, windows, caches. A result may be off by what its type rounds.

usage: test_grid.py [SEED]
"""
import itertools
import sys
import unittest

sys.dont_write_bytecode = True
import numpy
import clattn
import reference
import stored

SEED = int(sys.argv.pop()) if len(sys.argv) > 1 and sys.argv[-1].isdigit() else 1
RANDOM = numpy.random.default_rng(SEED)

# By type: the error of an output of about 1, beside that of the same formula in float64.
LIMITS = {'float32': 4e-6, 'float16': 4e-3, 'bfloat16': 3e-2}


def bits_of(x):
    """bfloat16 as the upper half of a float32, rounded to the nearest."""
    word = x.view(numpy.uint32)
    return ((word + 0x7FFF + ((word >> 16) & 1)) >> 16).astype(numpy.uint16)


def numbers(dtype, *shape):
    made = RANDOM.standard_normal(shape, dtype=numpy.float32)
    return bits_of(made) if dtype == 'bfloat16' else made.astype(dtype)


def wide(x):
    if x.dtype == numpy.uint16:
        return (x.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    return x.astype(numpy.float64)


def heads_first(x):
    return x.swapaxes(-3, -2)


class Grid(unittest.TestCase):
    def near(self, have, want, dtype, place):
        have = wide(have)
        self.assertEqual(have.shape, want.shape, place)
        error = float(abs(have - want).max(initial=0))
        self.assertLess(error, LIMITS[dtype], place)

    def test_scaled_dot_product_attention(self):
        shapes = [((2, 4, 9, 16), (2, 4, 13, 16), 16), ((2, 6, 17, 24), (2, 2, 5, 24), 8),
                  ((3, 7, 16), (3, 11, 16), 16), ((1, 3, 2, 1, 32), (1, 3, 2, 40, 32), 32), ((7, 16), (7, 16), 16)]
        masks = [None, 'bool', 'float', 'rows', 'causal']
        for number, (shape, mask) in enumerate(itertools.product(shapes, masks)):
            dtype = list(LIMITS)[number % 3]
            self.one_of_sdpa(shape, mask, dtype, scale=(None, 0.3)[number % 2])

    def one_of_sdpa(self, shape, mask, dtype, scale):
        q, k = numbers(dtype, *shape[0]), numbers(dtype, *shape[1])
        v = numbers(dtype, *shape[1][:-1], shape[2])
        rows, keys = q.shape[-2], k.shape[-2]
        options, known = {}, {}
        if mask == 'bool':
            options['attn_mask'] = RANDOM.random((rows, keys)) < 0.7
            known['mask'] = options['attn_mask']
        elif mask == 'rows' and q.ndim == 4:
            options['attn_mask'] = RANDOM.random((q.shape[0], 1, 1, keys)) < 0.7
            known['mask'] = options['attn_mask']
        elif mask == 'float':
            options['attn_mask'] = numbers(dtype, rows, keys)
            known['bias'] = wide(options['attn_mask'])
        elif mask == 'causal':
            options['is_causal'] = True
            known['causal'] = 'top-left'
        have, lse = clattn.scaled_dot_product_attention(q,
                                                        k,
                                                        v,
                                                        scale=scale,
                                                        return_lse=True,
                                                        enable_gqa=q.ndim > 2 and q.shape[-3] != k.shape[-3],
                                                        **options)
        lead = q.shape[:-2]
        four = [wide(x).reshape((-1, x.shape[-3] if q.ndim > 3 else 1, *x.shape[-2:])) for x in (q, k, v)]
        want, rows_lse = reference.each(*four, scale=scale, **known)
        place = (shape, mask, dtype, scale)
        self.near(have, want.reshape((*lead, rows, v.shape[-1])), dtype, place)
        seen = numpy.isfinite(rows_lse)
        self.assertLess(float(abs(lse.reshape(rows_lse.shape)[seen] - rows_lse[seen]).max()), 1e-4, place)
        self.assertTrue((lse.reshape(rows_lse.shape)[~seen] == -numpy.inf).all(), place)

    def test_flash_attn_func(self):
        choices = list(
            itertools.product([(8, 8), (5, 20), (20, 5), (1, 33)], [False, True], [(-1, -1), (3, 0), (2, 4)],
                              [0.0, 15.0], [False, True]))
        for number, (lengths, causal, window, cap, alibi) in enumerate(choices):
            dtype = list(LIMITS)[number % 3]
            heads, kv_heads = ((4, 4), (4, 1), (6, 2))[number % 3]
            q, k, v = (numbers(dtype, 2, n, h, 16)
                       for n, h in ((lengths[0], heads), (lengths[1], kv_heads), (lengths[1], kv_heads)))
            slopes = RANDOM.random(heads).astype(numpy.float32) if alibi else None
            have, lse = clattn.flash_attn_func(q,
                                               k,
                                               v,
                                               causal=causal,
                                               window_size=window,
                                               softcap=cap,
                                               alibi_slopes=slopes,
                                               return_lse=True)
            want, rows = reference.each(*(heads_first(wide(x)) for x in (q, k, v)),
                                        causal=causal,
                                        window=window,
                                        softcap=cap,
                                        alibi=slopes)
            place = (lengths, causal, window, cap, alibi, dtype)
            self.near(have, heads_first(want), dtype, place)
            self.assertEqual(lse.shape, rows.shape)

    def test_flash_attn_varlen_func(self):
        for number, (causal, paged) in enumerate(itertools.product([False, True], [False, True])):
            dtype = list(LIMITS)[number % 3]
            lengths, keys = (3, 0, 9, 5), (7, 4, 0, 12)
            cu_q, cu_k = (numpy.cumsum((0, *x)).astype(numpy.int32) for x in (lengths, keys))
            q = numbers(dtype, sum(lengths), 4, 16)
            k, v = numbers(dtype, sum(keys), 2, 16), numbers(dtype, sum(keys), 2, 16)
            given, table = (k, v), None
            if paged:
                table, *given = self.paged(k, v, cu_k, 4)
            have = clattn.flash_attn_varlen_func(q, *given, cu_q, cu_k, 9, 12, causal=causal, block_table=table)
            for i in range(4):
                rows, cols = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
                if rows.start == rows.stop:
                    continue
                want, _ = reference.attention(*(heads_first(wide(x)) for x in (q[rows], k[cols], v[cols])),
                                              causal=causal)
                self.near(have[rows], heads_first(want), dtype, (causal, paged, i))

    def test_rows_of_their_own(self):
        q, k, v = numbers('float32', 2, 2, 5, 16), numbers('float32', 2, 2, 20, 16), numbers('float32', 2, 2, 20, 16)
        have = clattn.attention(q, k, v, causal=True, row_shifts=[3, 9], query_lengths=[5, 2])
        for b, shift, rows in ((0, 3, 5), (1, 9, 2)):
            pairs = numpy.arange(20) <= numpy.arange(rows)[:, None] + shift
            want, _ = reference.attention(q[b, :, :rows], k[b], v[b], mask=pairs)
            self.near(have[b, :, :rows], want, 'float32', b)
            self.assertTrue((have[b, :, rows:] == 0).all())
        tree = RANDOM.random((5, 7)) < 0.5
        pairs = numpy.concatenate([numpy.ones((5, 13), bool), tree], 1)
        want, _ = reference.each(q, k, v, mask=pairs)
        self.near(clattn.attention(q, k, v, tree_mask=tree), want, 'float32', 'tree')
        copied = clattn.Device()
        copied.shares_memory = False
        self.near(clattn.attention(q, k, v, tree_mask=tree, device=copied), want, 'float32', 'tree, copied')
        again = clattn.attention(q, k, v, causal=True, row_shifts=[3, 9], query_lengths=[5, 2], device=copied)
        self.assertLess(float(abs(again - have).max()), 1e-5)

    def test_keys_of_8_bits(self):
        q, k, v = numbers('float32', 1, 2, 9, 16), numbers('float32', 1, 1, 20, 16), numbers('float32', 1, 1, 20, 16)
        scales = [abs(x).max(-1, keepdims=True) / 127 for x in (k, v)]
        stored = [numpy.rint(x / scale).astype(numpy.int8) for x, scale in zip((k, v), scales)]
        want, _ = reference.each(q, *(x * scale.astype(float) for x, scale in zip(stored, scales)))
        copied = clattn.Device()
        copied.shares_memory = False
        for device in (None, copied):
            have = clattn.attention(q, *stored, k_scales=scales[0], v_scales=scales[1], device=device)
            self.near(have, want, 'float32', device)
        with self.assertRaisesRegex(ValueError, 'k_scales is None'):
            clattn.attention(q, *stored)

    def paged(self, k, v, begins, page):
        """The same keys in pages of a pool, in any order."""
        counts = -(-(begins[1:] - begins[:-1]) // page)
        order = RANDOM.permutation(int(counts.sum()) + 2).astype(numpy.int32)
        table = numpy.zeros((len(counts), int(counts.max())), numpy.int32)
        pools = [numpy.zeros((len(order), page, *x.shape[1:]), x.dtype) for x in (k, v)]
        at = 0
        for i, count in enumerate(counts):
            for j in range(count):
                table[i, j] = order[at]
                part = slice(begins[i] + j * page, min(begins[i] + (j + 1) * page, begins[i + 1]))
                for pool, x in zip(pools, (k, v)):
                    pool[order[at], :part.stop - part.start] = x[part]
                at += 1
        return (table, *pools)


class Caches(unittest.TestCase):
    """flash_attn_with_kvcache: what it appends, and what it computes."""
    near = Grid.near

    def test_all(self):
        grid = itertools.product(['plain', 'pages', 'index'], [None, 'plain', 'neighbours', 'halves'], [False, True])
        for number, (place, rotary, causal) in enumerate(grid):
            self.one(place, rotary, causal, list(LIMITS)[number % 3], left=number % 2)

    def one(self, place, rotary, causal, dtype, left):
        batch, new, room, d = 2, 3, 24, 16
        before = numpy.array([5, 17], numpy.int32)
        q = numbers(dtype, batch, new, 4, d)
        k, v = numbers(dtype, batch, new, 2, d), numbers(dtype, batch, new, 2, d)
        whole = [numbers(dtype, batch, room, 2, d) for _ in range(2)]
        options, caches, seen = self.placed(place, whole, room)
        if rotary in ('neighbours', 'halves'):
            angle = RANDOM.random((room, d // 4)) * 6
            options.update(rotary_cos=numpy.cos(angle).astype('f4'),
                           rotary_sin=numpy.sin(angle).astype('f4'),
                           rotary_interleaved=rotary == 'neighbours')
        pad = numpy.array([2, 0], numpy.int32) if left else None
        have, lse = clattn.flash_attn_with_kvcache(q,
                                                   *caches,
                                                   k=k if rotary else None,
                                                   v=v if rotary else None,
                                                   cache_seqlens=before,
                                                   cache_leftpad=pad,
                                                   causal=causal,
                                                   return_softmax_lse=True,
                                                   **options)
        self.assertEqual(lse.shape, (batch, 4, new))
        for b in range(batch):
            keys, values, rows, count = wide(whole[0][b]), wide(whole[1][b]), wide(q[b]), before[b]
            if rotary:
                places = count + numpy.arange(new)
                turned, rows = wide(k[b]), rows
                if 'rotary_cos' in options:
                    begin = count - (0 if pad is None else pad[b])
                    by = begin + numpy.arange(new)
                    turned = self.rounded(self.turned(turned, by, options), dtype)
                    rows = self.rounded(self.turned(rows, by if causal else by * 0 + begin, options), dtype)
                keys[places], values[places] = turned, wide(v[b])
                count = count + new
                self.near(seen(caches[0], b)[:count], keys[:count], dtype, (place, rotary, 'the cache'))
            first = 0 if pad is None else pad[b]
            want, _ = reference.attention(*(heads_first(x) for x in (rows, keys[first:count], values[first:count])),
                                          causal=causal)
            self.near(have[b], heads_first(want), dtype, (place, rotary, causal, dtype, left, b))

    def test_formats(self):
        for form, place in itertools.product(['int8', 'int4', 'q8_0', 'q4_0'], ['plain', 'pages', 'index']):
            self.one_format(form, place)

    def one_format(self, form, place):
        """Keys are quantised as they are appended, with scales of their own where the format has some."""
        batch, new, room, d = 2, 3, 24, 32
        before = numpy.array([5, 17], numpy.int32)
        q, k, v = (numbers('float32', batch, new, h, d) for h in (4, 2, 2))
        old = numbers('float32', batch, room, 2, d)
        bytes_of = {'int8': d, 'int4': d // 2, 'q8_0': 34, 'q4_0': 18}[form]
        parts = [numpy.zeros((batch, room, 2, bytes_of), numpy.int8 if form == 'int8' else numpy.uint8)]
        if form in stored.STORED:
            parts[0][:] = stored.STORED[form](old)
        else:
            parts.append(numpy.full((batch, room, 2, 1), 0.5, numpy.float32))
            whole = numpy.rint(old * 2).clip(-7, 7)
            parts[0][:] = stored.int4(whole) if form == 'int4' else whole
        options, placed, seen = self.placed(place, parts, room)
        if form != 'int8':
            options.update(k_format=form, v_format=form)
        copies = [x.copy() for x in placed]
        if len(placed) > 1:
            options.update(k_scales=placed[1].swapaxes(1, 2), v_scales=copies[1].swapaxes(1, 2))
        have = clattn.flash_attn_with_kvcache(q,
                                              placed[0],
                                              copies[0],
                                              k=k,
                                              v=v,
                                              cache_seqlens=before,
                                              causal=True,
                                              **options)
        for b in range(batch):
            count, made = before[b] + new, []
            for arrays, x in ((placed, k), (copies, v)):
                values = self.values(form, *(seen(y, b) for y in arrays))[:count]
                step = abs(x[b]).max(-1, keepdims=True) / {'int8': 127, 'q8_0': 127}.get(form, 7)
                off = abs(values[before[b]:] - x[b])
                self.assertTrue((off <= step * (1.02 if form == 'q4_0' else 0.51)).all(), (form, place))
                made.append(values)
            want, _ = reference.attention(*(heads_first(x) for x in (wide(q[b]), *made)), causal=True)
            self.near(have[b], heads_first(want), 'float32', (form, place, b))

    @staticmethod
    def values(form, numbers_of, scales=None):
        if form in stored.VALUES:
            return stored.VALUES[form](numbers_of)
        return (stored.numbers_of_int4(numbers_of) if form == 'int4' else numbers_of) * scales.astype(float)

    def placed(self, place, whole, room):
        """Options, the caches that are given, and a function that sees an element of one."""
        if place == 'plain':
            return {}, [x.copy() for x in whole], lambda x, b: x[b]
        if place == 'index':
            more = [numpy.stack([x[1], x[1] * 0, x[0]]) for x in whole]
            return {'cache_batch_idx': numpy.array([2, 0], numpy.int32)}, more, lambda x, b: x[(2, 0)[b]]
        table = RANDOM.permutation(room // 8 * 2).astype(numpy.int32).reshape(2, -1)
        pools = [numpy.empty((table.size, 8, *x.shape[2:]), x.dtype) for x in whole]
        for pool, x in zip(pools, whole):
            pool[table] = x.reshape((2, room // 8, 8, *x.shape[2:]))
        return {'block_table': table}, pools, lambda x, b: x[table[b]].reshape((room, *x.shape[2:]))

    @staticmethod
    def turned(x, places, options):
        cos, sin = (wide(options[name])[places][:, None] for name in ('rotary_cos', 'rotary_sin'))
        half, done = cos.shape[-1], x.copy()
        a, b = (slice(0, 2 * half, 2),
                slice(1, 2 * half, 2)) if options['rotary_interleaved'] else (slice(0, half), slice(half, 2 * half))
        done[..., a], done[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
        return done

    @staticmethod
    def rounded(x, dtype):
        narrow = x.astype(numpy.float32)
        return wide(bits_of(narrow) if dtype == 'bfloat16' else narrow.astype(dtype))


if __name__ == '__main__':
    unittest.main()
