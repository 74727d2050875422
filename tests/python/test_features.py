#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every keyword of attention() and attention_backward() against the formula in float64, where arrays are used in place
and where they are copied; and that there is a keyword for each field of the library's structs."""
import inspect
import sys
import unittest

sys.dont_write_bytecode = True
import numpy
import clattn
from clattn import _abi
import reference
import stored

RANDOM = numpy.random.default_rng(3)
N_Q, N_KV, D = 12, 37, 32

# Fields of the structs whose keyword has another name; '': what the arrays and other keywords say.
OF_PROBLEM = {
    'pass': '', 'dtype': '', 'd': '', 'd_v': '', 'features': '', 'block_q': 'block_size', 'block_kv': 'block_size',
    'o_type': 'out_dtype', 'bias_type': '', 'q_type': '', 'k_type': 'k_format', 'v_type': 'v_format', 'page_keys': '',
    'zero_points': 'k_zeros', 'dropout_p': 'dropout_fixed', 'expected_n_q': 'expected', 'expected_n_kv': 'expected',
    'expected_heads': 'expected', 'expected_density': 'expected', 'expected_kv_heads': 'expected'
}
OF_SCORE = {
    'window_left': 'window', 'window_right': 'window', 'block_offsets': 'block_mask', 'block_columns': 'block_mask',
    'block_count': '', 'total_q': '', 'total_kv': '', 'pool_pages': '', 'page_count': '', 'kv_scales': 'k_scales',
    'row_shifts_offset': '', 'query_lengths_offset': '', 'tree_keys': '', 'bias_slopes_offset': '', 'rng_state_offset':
    '', 'dropout_row': ''
}


def numbers(*shape):
    return RANDOM.standard_normal(shape, dtype=numpy.float32)


def gradients(q, k, v, pairs, d_o, d_lse):
    """Of one head each, by the formula."""
    q, k, v, d_o, d_lse = (x.astype(float) for x in (q, k, v, d_o, d_lse))
    scale = q.shape[-1]**-0.5
    scores = numpy.where(pairs, q @ k.swapaxes(-1, -2) * scale, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    d_p = d_o @ v.swapaxes(-1, -2)
    d_s = weights * (d_p - (weights * d_p).sum(-1, keepdims=True) + d_lse[..., None])
    return d_s @ k * scale, d_s.swapaxes(-1, -2) @ q * scale, weights.swapaxes(-1, -2) @ d_o


class Features(unittest.TestCase):
    def setUp(self):
        self.q, self.k, self.v = numbers(2, 2, N_Q, D), numbers(2, 2, N_KV, D), numbers(2, 2, N_KV, D)
        copied = clattn.Device()
        copied.shares_memory = False
        self.devices = (clattn.default_device(), copied)

    def near(self, have, want, limit=4e-6):
        self.assertEqual(have.shape, want.shape)
        self.assertLess(float(abs(have.astype(float) - want).max()), limit)

    def holds(self, known, limit=4e-6, **options):
        """O and LSE, on both levels, beside the formula with what is known."""
        want, lse = reference.each(self.q, self.k, self.v, **known)
        for device in self.devices:
            have, rows = clattn.attention(self.q, self.k, self.v, device=device, return_lse=True, **options)
            self.near(have, want, limit)
            self.near(rows, lse, 1e-5)

    def learns(self, pairs, **options):
        """Gradients of O and LSE, on both levels."""
        d_o, d_lse = numbers(2, 2, N_Q, D), numbers(2, 2, N_Q)
        want = gradients(self.q, self.k, self.v, pairs, d_o, d_lse)
        for device in self.devices:
            o, m, l = clattn.attention(self.q, self.k, self.v, device=device, return_ml=True, **options)
            made = clattn.attention_backward(d_o,
                                             self.q,
                                             self.k,
                                             self.v,
                                             o,
                                             m=m,
                                             l=l,
                                             d_lse=d_lse,
                                             device=device,
                                             **options)
            for have, known in zip(made[:3], want):
                self.near(have, known, 2e-5)

    def test_window_with_a_corner_of_its_own(self):
        for corner, shift in (('top-left', 0), ('bottom-right', N_KV - N_Q)):
            own, keys = numpy.arange(N_Q)[:, None] + shift, numpy.arange(N_KV)
            pairs = (keys >= own - 3) & (keys <= own + 2)
            options = {'window': (3, 2), 'window_corner': corner}
            self.holds({'mask': pairs}, **options)
            self.learns(pairs, **options)

    def test_blocks(self):
        kept = RANDOM.random((1, 2, 1, 3)) < 0.6
        kept[..., 0] = True
        pairs = numpy.repeat(numpy.repeat(kept, 16, 2), 16, 3)[:, :, :N_Q, :N_KV]
        counts = kept.sum(-1)
        offsets = numpy.zeros((1, 2, 2), numpy.int32)
        offsets[0, :, 0], offsets[0, :, 1] = (0, counts[0, 0, 0]), numpy.cumsum(counts)
        columns = numpy.nonzero(kept.reshape(2, 3))[1].astype(numpy.int32)
        for blocks in (kept, (offsets, columns)):
            options = {'block_mask': blocks, 'block_size': (16, 16), 'expected': {'density': 0.5}}
            self.holds({'mask': pairs}, **options)
            self.learns(numpy.broadcast_to(pairs, (2, 2, N_Q, N_KV)), **options)

    def test_rows_and_trees(self):
        own = numpy.arange(N_Q)[:, None] + numpy.array([20, 9])[:, None, None, None]
        pairs = numpy.broadcast_to(numpy.arange(N_KV) <= own, (2, 2, N_Q, N_KV))
        self.holds({'mask': pairs}, causal=True, row_shifts=[20, 9])
        self.learns(pairs, causal=True, row_shifts=[20, 9])
        tree = RANDOM.random((N_Q, 33)) < 0.5
        pairs = numpy.concatenate([numpy.ones((N_Q, N_KV - 33), bool), tree], 1)
        self.holds({'mask': pairs}, tree_mask=tree)
        self.learns(pairs, tree_mask=tree)
        lengths = [9, 30]
        pairs = numpy.broadcast_to(
            numpy.arange(N_KV) < numpy.array(lengths)[:, None, None, None], (2, 2, N_Q, N_KV))
        self.holds({'mask': pairs}, key_lengths=lengths)
        self.learns(pairs, key_lengths=lengths)

    def test_sinks_bias_softcap_alibi(self):
        sinks, slopes = numbers(2), abs(numbers(2))
        bias = numbers(2, 1, N_Q, N_KV)
        self.holds({'sinks': sinks}, sinks=sinks)
        self.holds({'bias': bias, 'softcap': 9.0}, bias=bias, softcap=9.0)
        self.holds({'alibi': slopes}, 2e-5, alibi=slopes)
        self.holds({'bias': bias.astype(numpy.float16)}, bias=bias.astype(numpy.float16))
        self.holds({'bias': bias * slopes[:, None, None]}, bias=bias, bias_slopes=slopes)
        with self.assertRaisesRegex(ValueError, 'bias_slopes is given without a bias'):
            clattn.attention(self.q, self.k, self.v, bias_slopes=slopes)

    def test_own_functions(self):
        data = numbers(N_KV)
        options = {
            'score_mod': 'float score_mod(float s, int b, int h, int i, int j, __global const float *data) '
            '{ return s + data[j]; }', 'mask_mod':
            'bool mask_mod(int b, int h, int i, int j, __global const float *data) { return j % 3 != 1; }', 'data': data
        }
        pairs = numpy.broadcast_to(numpy.arange(N_KV) % 3 != 1, (N_Q, N_KV))
        self.holds({'mask': pairs, 'bias': numpy.broadcast_to(data, (N_Q, N_KV))}, **options)

    def test_dropout(self):
        options = {'dropout_p': 0.25, 'dropout_seed': 7, 'dropout_offset': 3}
        have = clattn.attention(self.q, self.k, self.v, **options)
        again = clattn.attention(self.q, self.k, self.v, dropout_fixed=True, **options)
        self.near(have, again.astype(float))
        for device in self.devices:
            options = {'dropout_p': 0.25, 'rng_state': numpy.array([7, 3], numpy.uint64), 'device': device}
            made = clattn.attention(self.q, self.k, self.v, **options)
            self.near(made, have.astype(float))
        keep = numpy.zeros((2, 2, N_Q, N_KV), numpy.uint8)
        for b in range(2):
            for h in range(2):
                _library = clattn._library.clattn
                _library.clattn_dropout_mask(0.25, 7, 3, 2, b, h, 0, N_Q, 0, N_KV, keep[b, h].ctypes.data)
            want, _ = reference.attention(self.q[b], self.k[b], self.v[b], keep=keep[b], dropped=0.25)
            self.near(have[b], want)

    def test_types_of_o(self):
        want, _ = reference.each(self.q, self.k, self.v)
        for device in self.devices:
            for dtype, limit in (('float16', 2e-3), ('bfloat16', 1.6e-2)):
                have = clattn.attention(self.q, self.k, self.v, out_dtype=dtype, device=device)
                if dtype == 'bfloat16':
                    have = (have.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
                self.near(have, want, limit)
        with self.assertRaisesRegex(ValueError, 'out_dtype is .int8'):
            clattn.attention(self.q, self.k, self.v, out_dtype='int8')

    def test_plans(self):
        self.holds({}, split_keys=16)
        self.holds({}, splits=3)
        self.holds({}, expected={'n_q': N_Q, 'n_kv': N_KV, 'heads': 4, 'kv_heads': 4})
        self.holds({'causal': True}, causal=True, kv_chunk=16)
        self.k, self.v = self.k[:, :1], self.v[:, :1]
        self.holds({}, packing='always')
        self.holds({}, packing='never')
        for name, value, text in (('packing', 'often', 'packing is'), ('expected', {'rows': 3}, 'expected has')):
            with self.assertRaisesRegex(ValueError, text):
                clattn.attention(self.q, self.k, self.v, **{name: value})

    def test_gradients_into_given_arrays(self):
        o, m, l = clattn.attention(self.q, self.k, self.v, return_ml=True)
        d_o = numbers(*o.shape)
        whole = numpy.full((2, N_Q, 3, 2, D), 7, numpy.float32)
        out = clattn.Gradients(q=whole[:, :, 1].swapaxes(1, 2))
        made = clattn.attention_backward(d_o, self.q, self.k, self.v, o, m=m, l=l, out=out)
        plain = clattn.attention_backward(d_o, self.q, self.k, self.v, o, m=m, l=l)
        self.assertIs(made.q, out.q)
        self.assertTrue((made.q == plain.q).all() and (made.k == plain.k).all())
        self.assertTrue((whole[:, :, 0] == 7).all() and (whole[:, :, 2] == 7).all())
        with self.assertRaisesRegex(ValueError, 'd_k is fp32 of shape'):
            clattn.attention_backward(d_o, self.q, self.k, self.v, o, m=m, l=l, out=clattn.Gradients(k=self.q.copy()))


class Formats(unittest.TestCase):
    """K and V in formats, and in pages."""
    setUp, near = Features.setUp, Features.near

    def test_blocks_of_ggml(self):
        for form, store in stored.STORED.items():
            k, v = store(self.k), store(self.v)
            want, _ = reference.each(self.q, stored.VALUES[form](k), stored.VALUES[form](v))
            for device in self.devices:
                self.near(clattn.attention(self.q, k, v, k_format=form, v_format=form, device=device), want)
            self.near(clattn.attention(self.q, k, self.v, k_format=form),
                      reference.each(self.q, stored.VALUES[form](k), self.v)[0])

    def test_halves_of_bytes(self):
        steps, zeros = abs(numbers(2, 2, N_KV, 2)) / 4 + 0.1, numpy.rint(numbers(2, 2, N_KV, 2))
        whole = RANDOM.integers(-8, 8, (2, 2, N_KV, D))
        values = (whole - numpy.repeat(zeros, 16, -1)) * numpy.repeat(steps, 16, -1).astype(float)
        options = {'k_format': 'int4', 'k_scales': steps, 'k_zeros': zeros, 'k_scale_group': 16}
        want, _ = reference.each(self.q, values, self.v)
        for device in self.devices:
            self.near(clattn.attention(self.q, stored.int4(whole), self.v, device=device, **options), want, 2e-5)

    def test_compressed_tables_of_pages(self):
        pool = numbers(7, 2, 8, D)
        lengths, table, offsets = [13, 30], [5, 2, 6, 0, 3, 1], [0, 2, 6]
        options = {'pages': table, 'page_offsets': offsets, 'max_n_kv': 32, 'key_lengths': lengths}
        for device in self.devices:
            have = clattn.attention(self.q, pool, pool, device=device, **options)
            for b in range(2):
                keys = numpy.concatenate(pool[table[offsets[b]:offsets[b + 1]]], 1)[:, :lengths[b]]
                self.near(have[b], reference.attention(self.q[b], keys, keys)[0])

    def test_refusals(self):
        blank = numpy.zeros((2, 2, N_KV, 34), numpy.uint8)
        for k, form, kind, text in ((self.k, 'q8_0', TypeError, "with k_format 'q8_0' it must be one of byte"),
                                    (blank[..., :33], 'q8_0', ValueError, 'blocks of 34 bytes'),
                                    (self.k, 'q5_1', ValueError, "k_format is 'q5_1'"),
                                    (blank[..., :16], 'int4', ValueError, 'k_scales is None')):
            with self.assertRaisesRegex(kind, text):
                clattn.attention(self.q, k, self.v, k_format=form)


class Keywords(unittest.TestCase):
    def test_each_field_has_one(self):
        known = {
            *inspect.signature(clattn.attention).parameters, *inspect.signature(clattn.attention_backward).parameters
        }
        for struct, others in ((_abi.clattn_problem, OF_PROBLEM), (_abi.clattn_score_args, OF_SCORE)):
            for name, _ in struct._fields_:
                keyword = others.get(name, name)
                said = name == 'reserved' or name.endswith('_memory') or not keyword  # by the arrays themselves
                self.assertTrue(said or keyword in known, f'{struct.__name__}.{name}')
            self.assertLessEqual(set(others), {name for name, _ in struct._fields_})


if __name__ == '__main__':
    unittest.main()
