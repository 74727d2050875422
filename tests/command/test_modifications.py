#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn run` with each modification of the scores."""
import json
import math
import os
import random
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import DEVICE, product, run_tests, stored
from modifications import ModificationsTest
from modified_attention import dropout


class Modifications(ModificationsTest):
    def test_window(self):
        for left, right in ((2, 0), (-1, 1), (1, -1), (0, 0)):
            self.check(["--window", "%d,%d" % (left, right)], window=(left, right))
        self.check(["--window=1,3", "--causal"], window=(1, 3), causal="bottom-right")
        self.check(["--window=1,3", "--causal=top-left"], window=(1, 3), causal="top-left")

    def test_softcap(self):
        self.check(["--softcap", "2.5"], softcap=2.5)

    def test_alibi(self):
        batch, heads = self.SHAPE[:2]
        slopes = self.numbers(batch * heads)
        file = self.write("slopes", "<f4", (heads,), slopes[:heads])
        self.check(["--alibi", file], slope=lambda b, h: slopes[h])
        file = self.write("slopes", "<f4", (batch, heads), slopes)
        self.check(["--alibi", file, "--causal=top-left"], slope=lambda b, h: slopes[b * heads + h], causal="top-left")

    def test_bias(self):
        batch, heads, _, n_q, n_kv = self.SHAPE
        for shape in ((n_q, n_kv), (heads, n_q, n_kv), (1, n_q, n_kv), (batch, 1, n_q, n_kv), (batch, heads, n_q, n_kv),
                      (batch, 1, 1, n_kv), (n_q, 1), (batch, heads, 1, 1), (1, 1)):
            values = self.numbers(product(shape))
            full = (1,) * (4 - len(shape)) + shape

            def bias(b, h, i, j):
                at = [x if length > 1 else 0 for x, length in zip((b, h, i, j), full)]
                return values[((at[0] * full[1] + at[1]) * full[2] + at[2]) * full[3] + at[3]]
            self.check(["--bias", self.write("bias", "<f4", shape, values)], bias=bias)
        values, slopes = self.numbers(n_q * n_kv), [0.5 + x * x for x in self.numbers(heads)]
        self.check(["--bias", self.write("bias", "<f4", (n_q, n_kv), values), "--bias-slopes",
                    self.write("slopes", "<f4", (heads,), slopes)], bias=lambda b, h, i, j: slopes[h] * values[i * n_kv + j])
        rounded, bits = stored("<u2", self.numbers(n_q * n_kv))
        self.check(["--bias", self.write("bias", "<u2", (n_q, n_kv), bits)], kind="<u2", tolerance=3e-2,
                   bias=lambda b, h, i, j: rounded[i * n_kv + j])

    def test_mask(self):
        batch, heads, _, n_q, n_kv = self.SHAPE
        values = [x > -0.3 for x in self.numbers(batch * n_q * n_kv)]
        values[:n_kv] = [False] * n_kv  # a row that sees nothing
        for kind in ("|b1", "|u1"):
            file = self.write("mask", kind, (batch, 1, n_q, n_kv), [x if kind == "|b1" else 3 * x for x in values])
            self.check(["--mask", file], shown=lambda b, h, i, j: values[(b * n_q + i) * n_kv + j])
        padding = self.write("mask", "|b1", (batch, 1, 1, n_kv), values[-batch * n_kv:])
        self.check(["--mask", padding], shown=lambda b, h, i, j: values[len(values) - batch * n_kv + b * n_kv + j])
        self.check(["--mask", self.write("mask", "|b1", (1, 1), [True])])

    def test_sinks(self):
        sinks = self.numbers(3) + [-math.inf]
        file = self.write("sinks", "<f4", (4,), sinks)
        self.check(["--sink", file], sinks=sinks)
        self.check(["--sink", file, "--causal"], shape=(2, 4, 2, 9, 5), sinks=sinks, causal="bottom-right")

    def test_dropout(self):
        shape = (2, 4, 2, 19, 70)
        for offset in (None, 9):
            words = ["--dropout", "0.25", "--seed", "123456789012345"] + (["--dropout-offset", offset] if offset else [])
            self.check(words, shape=shape, factor=dropout(0.25, 123456789012345, offset or 0, 4))
        self.check(["--dropout", "0", "--seed", "1"])

    def test_block_mask(self):
        shape = (2, 2, 1, 40, 70)
        rows, columns = 3, 3
        values = [x > -0.2 for x in self.numbers(2 * 2 * rows * columns)]
        file = self.write("blocks", "|b1", (2, 2, rows, columns), values)
        self.check(["--block-mask", file, "--block-size", "16,32"], shape=shape,
                   shown=lambda b, h, i, j: values[((b * 2 + h) * rows + i // 16) * columns + j // 32])

    def compressed(self, kind, shape, kept):
        """CSR files of kept[head][row] = columns, [2, 2, rows + 1] or [rows + 1]; the options that name them."""
        pointers, numbers = [], []
        for head in kept:
            for columns in head:
                pointers.append(len(numbers))
                numbers += columns
            pointers.append(len(numbers))
        return ["--block-indptr", self.write("indptr", kind, shape, pointers), "--block-indices",
                self.write("indices", kind, (len(numbers),), numbers), "--block-size", "16,32"]

    def test_compressed_block_mask(self):
        shape = (2, 2, 1, 40, 70)
        heads = [[[2, 0], [], [1]], [[0], [0, 1, 2], [2]], [[], [], []], [[1], [2], [0, 1]]]  # in any order within a row
        self.check(self.compressed("<i4", (2, 2, 4), heads), shape=shape,
                   shown=lambda b, h, i, j: j // 32 in heads[b * 2 + h][i // 16])
        self.check(self.compressed("<i8", (2, 4), heads[:2]), shape=shape,
                   shown=lambda b, h, i, j: j // 32 in heads[h][i // 16])
        self.check(self.compressed("<i4", (4,), heads[:1]) + ["--kv-chunk", "33"], shape=shape,
                   shown=lambda b, h, i, j: j // 32 in heads[0][i // 16])
        self.check(self.compressed("<i4", (4,), heads[2:3]), shape=shape, shown=lambda b, h, i, j: False)

    def test_key_lengths(self):
        for kind in ("<i4", "<i8"):
            file = self.write("lengths", kind, (2,), [4, 0])
            for causal in ("off", "bottom-right"):
                self.check(["--key-lengths", file, "--causal", causal], key_lengths=[4, 0], causal=causal)

    def test_positions(self):
        """Rows that are aligned by numbers, of lengths of their own, windows with their own corner, and trees."""
        batch, heads, _, n_q, n_kv = self.SHAPE
        shifts, lengths, keys = [3, -2], [5, 2], [9, 6]
        words = ["--row-shifts", self.write("shifts", "<i4", (batch,), shifts), "--causal", "--window=3,1"]
        self.check(words, row_shifts=shifts, causal="bottom-right", window=(3, 1))
        words += ["--window-corner=top-left", "--sink-keys=2"]
        self.check(words, row_shifts=shifts, causal="bottom-right", window=(3, 1), window_corner="top-left",
                   sink_keys=2)
        words = ["--query-lengths", self.write("rows", "<i8", (batch,), lengths), "--key-lengths",
                 self.write("keys", "<i4", (batch,), keys), "--causal"]
        self.check(words, query_lengths=lengths, key_lengths=keys, causal="bottom-right")
        self.gradients(words, query_lengths=lengths, key_lengths=keys, causal="bottom-right")
        bits = [random.Random(n).getrandbits(32) for n in range(2 * n_q)]  # 34 keys of the last 9, of one word and two
        signed = [x - (x >> 31 << 32) for x in bits]
        tree = ["--tree-mask", self.write("tree", "<i4", (n_q, 1), signed[:n_q]), "--tree-keys=6"]
        self.check(tree, tree=(6, lambda b, h, i, bit: bits[i] >> bit & 1))
        tree = ["--tree-mask", self.write("tree", "<i4", (n_q, 2), signed), "--tree-keys=34"]
        self.check(tree, tree=(34, lambda b, h, i, bit: bits[2 * i + bit // 32] >> bit % 32 & 1))

    def test_first_keys(self):
        """Tiles between the first keys and a window's, which no row of a block sees."""
        shape = (1, 2, 1, 210, 210)
        for name in ("forward_simt", "forward_cpu") if self.on_cpu() else ("forward_simt", "forward_matrix"):
            self.check(["--skeleton", name, "--causal", "--window=20,0", "--sink-keys=4"], shape=shape,
                       causal="bottom-right", window=(20, 0), sink_keys=4)

    def test_split_keys(self):
        """The same bits of a sequence in whatever batch it comes."""
        shape = (3, 4, 2, 2, 70)
        q, k, v = self.tensors(shape=shape)
        lengths = [70, 33, 5]
        words = ["--split-keys=16", "--causal", "--key-lengths"]
        self.check([*words, self.write("keys", "<i4", (3,), lengths)], shape=shape, key_lengths=lengths,
                   causal="bottom-right")
        whole, row, key = self.got("o"), 4 * 2, 2 * 40
        cut = lambda values, rows, kept, d: [x for h in range(len(values) // (rows * d))
                                             for x in values[h * rows * d:(h * rows + kept) * d]]
        one = [q[row * self.D:2 * row * self.D], cut(k[140 * self.D:280 * self.D], 70, 40, self.D),
               cut(v[140 * self.D_V:280 * self.D_V], 70, 40, self.D_V)]
        for name, values, shape in zip("qkv", one, ((1, 4, 2, self.D), (1, 2, 40, self.D), (1, 2, 40, self.D_V))):
            self.write(name, "<f4", shape, values)
        self.run_it("run", *self.names(), *words, self.write("keys", "<i4", (1,), [33]))
        self.assertEqual(list(self.got("o")), list(whole[row * self.D_V:2 * row * self.D_V]))

    SCORE_MOD = """float score_mod(float score, int b, int h, int i, int j, __global const float *data)
{
    return score * score * 0.125f + data[h] * (i - j);
}
"""
    SCORE_MOD_GRAD = """float score_mod_grad(float score, int b, int h, int i, int j, __global const float *data)
{
    return score * 0.25f;
}
"""
    MASK_MOD = """bool mask_mod(int b, int h, int i, int j, __global const float *data)
{
    return (i + 2 * j + b) % 3 != 0;
}
"""

    def test_own_functions(self):
        data = self.numbers(4)
        data_file = self.write("data", "<f4", (2, 2), data)
        words = ["--score-mod", self.text("score.cl", self.SCORE_MOD), "--mask-mod", self.text("mask.cl", self.MASK_MOD),
                 "--data", data_file]
        modifications = {"score_mod": lambda s, b, h, i, j: (s * s * 0.125 + data[h] * (i - j), s * 0.25),
                         "shown": lambda b, h, i, j: (i + 2 * j + b) % 3 != 0}
        self.check(words, **modifications)
        self.gradients(words + ["--score-mod-grad", self.text("grad.cl", self.SCORE_MOD_GRAD)], **modifications)

    def test_own_functions_that_do_not_compile(self):
        self.tensors()
        wrong = self.text("wrong.cl", self.SCORE_MOD.replace("data[h]", "nothing[h]"))
        self.refused(DEVICE, "run", *self.names(), "--score-mod", wrong,
                     says=["CLATTN_BUILD_FAILED", "score_mod:3", "nothing"])
        self.assertFalse(os.path.exists(self.path("o.npy")))

    def test_summary(self):
        self.tensors()
        do = self.write("do", "<f4", (2, 4, 5, 6), self.numbers(240))
        result = self.run_it("run", *self.names(), "--softcap=2", "--window=1,1", "--grad-out", do, "--dq", self.path("dq.npy"),
                             "--json")
        summary = json.loads(result.stdout)
        self.assertEqual(summary["features"], ["window", "softcap"])
        self.assertTrue(summary["backward"]["path"].startswith("backward_"))
        self.assertIn("window, softcap", result.stderr)
        self.assertIn("backward_", result.stderr)


if __name__ == "__main__":
    run_tests()
