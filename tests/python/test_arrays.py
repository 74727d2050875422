#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The Python package on arrays of NumPy: values, arrays that are used where they lie, and what is refused. Kernels are
few, so that this takes seconds. Without NumPy it is skipped."""
import fnmatch
import importlib.util
import inspect
import re
import sys
import unittest

if not importlib.util.find_spec('numpy'):
    print('there is no NumPy: not tested')
    sys.exit(77)

sys.dont_write_bytecode = True
import numpy
import clattn
import reference

RANDOM = numpy.random.default_rng(42)


def numbers(*shape):
    return RANDOM.standard_normal(shape, dtype=numpy.float32)


class Values(unittest.TestCase):
    def near(self, have, want, limit=2e-6):
        self.assertEqual(have.shape, want.shape)
        self.assertLess(float(abs(have - want).max()), limit)

    def test_pieces_are_watched(self):
        q, k, v = numbers(1, 2, 20, 16), numbers(1, 2, 64, 16), numbers(1, 2, 64, 16)
        want, _ = reference.each(q, k, v)
        seen, whole = [], numpy.full(want.shape, 7, numpy.float32)
        have = clattn.attention(q, k, v, kv_chunk=16, progress=lambda done, keys: seen.append((done, keys)))
        self.near(have, want)
        self.assertEqual(seen, [(16, 64), (32, 64), (48, 64), (64, 64)])
        self.near(clattn.attention(q, k, v, max_device_bytes=1 << 20), want)
        with self.assertRaisesRegex(clattn.Error, 'cancel'):
            clattn.attention(q, k, v, kv_chunk=16, cancel=lambda done, keys: done >= 32, out=whole)
        self.assertTrue((whole == 7).all())
        with self.assertRaises(ZeroDivisionError):
            clattn.attention(q, k, v, kv_chunk=16, progress=lambda done, keys: done // 0, out=whole)
        self.assertTrue((whole == 7).all())
        with self.assertRaisesRegex(clattn.Error, 'max_device_bytes'):
            clattn.attention(q, k, v, max_device_bytes=100)
        for name, value in (('max_device_bytes', -1), ('progress', 3), ('first_event', [])):
            with self.assertRaisesRegex(ValueError, f'{name} is'):
                clattn.attention(q, k, v, **{name: value})

    def test_a_device_says_what_it_does(self):
        q, k, v = numbers(1, 2, 20, 16), numbers(1, 2, 36, 16), numbers(1, 2, 36, 16)
        said = []
        device = clattn.Device(cache_directory='', log=lambda level, text: said.append((level, text)), log_level=3)
        clattn.attention(q, k, v, device=device)
        self.assertIn((3, 'kernel forward_cpu: compiling'), said)
        with self.assertRaisesRegex(clattn.Error, '/nonexistent/tuning.json'):
            clattn.Device(tuning='/nonexistent/tuning.json')

    def test_both_levels_in_all_layouts(self):
        q, k, v = numbers(2, 4, 20, 16), numbers(2, 2, 36, 16), numbers(2, 2, 36, 16)
        want, lse = reference.each(q, k, v, causal=True)
        for order in ('bhnd', 'bnhd'):
            given = [x if order == 'bhnd' else x.transpose(0, 2, 1, 3) for x in (q, k, v)]
            have, rows = clattn.attention(*given, layout=order, causal=True, return_lse=True)
            self.near(have if order == 'bhnd' else have.transpose(0, 2, 1, 3), want)
            self.near(rows, lse)
        self.near(clattn.flash_attn_func(*given, causal=True), want.transpose(0, 2, 1, 3))
        device = clattn.Device()
        device.shares_memory = False
        self.near(clattn.attention(q, k, v, causal=True, device=device), want)

    def test_slices_of_one_array_and_out(self):
        both = numbers(1, 20, 3, 4, 16)
        q, k, v = (both[:, :, i] for i in range(3))
        whole = numpy.full((1, 20, 4, 2, 16), 7, numpy.float32)
        out = whole[:, :, :, 1]
        self.assertIs(clattn.attention(q, k, v, layout='bnhd', causal=True, out=out), out)
        want, _ = reference.each(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), causal=True)
        self.near(out.transpose(0, 2, 1, 3), want)
        self.assertTrue((whole[:, :, :, 0] == 7).all())
        with self.assertRaisesRegex(clattn.ArgumentError, 'overlaps q .*a place of its own'):
            clattn.attention(q, k, v, layout='bnhd', causal=True, out=q)

    def test_gradients(self):
        q, k, v, d_o = (numbers(1, 2, 20, 16) for _ in range(4))
        o, m, l = clattn.attention(q, k, v, causal=True, return_ml=True)
        made = clattn.attention_backward(d_o, q, k, v, o, m=m, l=l, causal=True)
        for x, gradient in ((q, made.q), (k, made.k), (v, made.v)):
            place, step = (0, 1, 7, 3), 1e-4
            sides = []
            for sign in (1, -1):
                moved = [y.astype(numpy.float64) for y in (q, k, v)]
                moved[[y is x for y in (q, k, v)].index(True)][place] += sign * step
                sides.append((reference.each(*moved, causal=True)[0] * d_o).sum())
            self.assertAlmostEqual((sides[0] - sides[1]) / (2 * step), float(gradient[place]), delta=1e-5)
        self.assertIsNone(made.bias)

    def test_nothing_to_do(self):
        self.assertEqual(
            clattn.attention(numbers(0, 4, 20, 16), numbers(0, 2, 36, 16), numbers(0, 2, 36, 16)).shape, (0, 4, 20, 16))
        self.assertEqual(
            float(abs(clattn.attention(numbers(1, 1, 3, 16), numbers(1, 1, 0, 16), numbers(1, 1, 0, 16))).max()), 0)


class Refusals(unittest.TestCase):
    def setUp(self):
        self.q = numbers(1, 2, 8, 16)

    def refused(self, kind, text, *arguments, **options):
        with self.assertRaisesRegex(kind, text):
            clattn.attention(*arguments, **options)

    def test_types(self):
        q = self.q
        self.refused(TypeError, 'k is float64: .* no fp64', q, q.astype(float), q)
        self.refused(TypeError, 'v is int64', q, q, q.astype(int))
        self.refused(TypeError, 'q is a list', [1.0], q, q)
        self.refused(TypeError, 'mask is fp32', q, q, q, mask=numbers(8, 8))
        self.refused(TypeError, 'bias is float64', q, q, q, bias=numpy.zeros((8, 8)))

    def test_shapes_and_values(self):
        q = self.q
        self.refused(ValueError, 'k has 15 columns, q 16', q, q[..., :15], q)
        self.refused(ValueError, 'v has shape', q, q, q[:, :, :7])
        self.refused(ValueError, 'kv_heads', numbers(1, 3, 8, 16), q, q)
        self.refused(ValueError, 'layout is .bdhn', q, q, q, layout='bdhn')
        self.refused(ValueError, 'causal is .upper', q, q, q, causal='upper')
        self.refused(ValueError, 'mask has shape', q, q, q, mask=numpy.ones((3, 8), bool))
        self.refused(ValueError, 'window is', q, q, q, window=(1, -2))
        self.refused(ValueError, 'softcap is -1', q, q, q, softcap=-1)
        self.refused(ValueError, 'scale is nan', q, q, q, scale=float('nan'))
        self.refused(ValueError, 'key_lengths has 9', q, q, q, key_lengths=[9])
        self.refused(ValueError, 'dropout_p is 1', q, q, q, dropout_p=1.0)
        self.refused(ValueError, 'out has shape', q, q, q, out=q[:, :1].copy())
        self.refused(ValueError, 'queue is given', q, q, q, queue=1)
        read_only = q.copy()
        read_only.flags.writeable = False
        self.refused(ValueError, 'out is read-only', q, q, q, out=read_only)

    def test_plain_arguments(self):
        """Each that is not an array, of a type that it cannot be."""
        q = self.q
        for name, value in (('window', 3), ('window', 'x'), ('window', (1.5, 2)), ('scale', 'a'), ('softcap', 'a'),
                            ('softcap', None), ('dropout_p', 'a'), ('dropout_seed', 1.5), ('device', '0:0'),
                            ('device', 0), ('return_lse', 2), ('return_ml', 'yes'), ('layout', 4), ('skeleton', 7),
                            ('kv_chunk', 1e6), ('splits', '2'), ('sink_keys', 2.0), ('score_mod', len), ('b_r', '64'),
                            ('expected', 7), ('statistics', q), ('wait_for', 1), ('window_corner', 'left')):
            self.refused(ValueError, f'^{name} is ', q, q, q, **{name: value})
        self.refused(ValueError, r"^expected\['n_q'\] is 'x': it must be an integer", q, q, q, expected={'n_q': 'x'})
        self.refused(ValueError, 'block_size is 64: it is .rows, keys', q, q, q, block_mask=q, block_size=64)
        self.refused(TypeError, 'is_causal is no argument of this function: is it causal', q, q, q, is_causal=True)
        self.refused(ValueError, 'out .* overlaps q ', q, q, q, out=q)
        with self.assertRaisesRegex(ValueError, 'device is .0:0'):
            clattn.set_default_device('0:0')
        numpys = {'window': numpy.array((3, 0)), 'scale': numpy.float32(0.25), 'return_lse': numpy.True_,
                  'kv_chunk': numpy.int64(4)}
        o, lse = clattn.attention(q, q, q, **numpys)
        same, _ = clattn.attention(q, q, q, window=(3, 0), scale=0.25, return_lse=True, kv_chunk=4)
        self.assertEqual((o.tobytes(), lse.shape), (same.tobytes(), q.shape[:-1]))

    def test_docstrings(self):
        """Each argument stands in its function's, or in that of a function that this refers to ("as in NAME()")."""
        def words(name):
            text = getattr(clattn, name).__doc__
            others = set(re.findall(r'as in\s+(\w+)\(\)', text)) - {name}
            return set(re.findall(r'\w+\*?', text)).union(*map(words, others))

        for name in clattn.__all__:
            if inspect.isfunction(getattr(clattn, name)):
                known = words(name)
                missing = [argument for argument in inspect.signature(getattr(clattn, name)).parameters
                           if not any(fnmatch.fnmatchcase(argument, word) for word in known)]
                self.assertEqual(missing, [], name)

    def test_packed_sequences(self):
        q = numbers(2, 10, 16)
        for cu, text in (([0, 11], 'from 0 to 10'), ([0, 9], 'from 0 to 10'), ([0, 6, 5, 10], 'not fall')):
            self.refused(ValueError, text, q, q, q, layout='hnd', cu_seqlens_q=cu, cu_seqlens_kv=[0, 10])
        self.refused(ValueError, 'cu_seqlens_q, and', q, q, q, layout='hnd')

    def test_other_functions(self):
        q = self.q
        with self.assertRaisesRegex(ValueError, 'enable_gqa'):
            clattn.scaled_dot_product_attention(q, q[:, :1], q[:, :1])
        with self.assertRaisesRegex(ValueError, 'return_attn_probs'):
            clattn.flash_attn_func(q, q, q, return_attn_probs=True)
        for name, value in (('softmax_scale', 'a'), ('window_size', 3), ('softcap', 'a')):
            with self.assertRaisesRegex(ValueError, f'^{name} is '):
                clattn.flash_attn_func(q, q, q, **{name: value})
            with self.assertRaisesRegex(ValueError, f'^{name} is '):
                clattn.flash_attn_with_kvcache(q, q, q, **{name: value})
        with self.assertRaisesRegex(ValueError, '^attn_mask has shape'):
            clattn.scaled_dot_product_attention(q, q, q, numpy.ones((3, 8), bool))
        with self.assertRaisesRegex(ValueError, '^key has 15 columns, query 16'):
            clattn.scaled_dot_product_attention(q, q[..., :15], q)
        with self.assertRaisesRegex(TypeError, '^k_cache is float64'):
            clattn.flash_attn_with_kvcache(q, q.astype(float), q)
        with self.assertRaisesRegex(ValueError, 'platform 99'):
            clattn.Device(99, 0)


if __name__ == '__main__':
    unittest.main()
