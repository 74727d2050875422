#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn run` in both directions, and with all modifications at once."""
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import product, read_npy, run_tests
from modifications import ModificationsTest
from modified_attention import dropout


class Gradients(ModificationsTest):
    def test_gradients(self):
        self.gradients([])
        self.gradients(["--causal"], causal="bottom-right")
        self.gradients(["--causal=top-left", "--scale=0.3"], wanted=("dk",), causal="top-left", scale=0.3)
        self.gradients(["--window=1,1", "--softcap=3"], wanted=("dq", "dv"), window=(1, 1), softcap=3.0)
        self.gradients(["--causal"], shape=(1, 4, 1, 9, 5), causal="bottom-right")  # rows without keys

    def test_gradients_of_bias_and_sinks(self):
        batch, heads, _, n_q, n_kv = self.SHAPE
        sinks = self.numbers(heads, 8)
        sink_file = self.write("sinks", "<f4", (heads,), sinks)
        for shape in ((n_q, n_kv), (heads, 1, n_kv), (heads, n_q, n_kv), (batch, 1, n_q, n_kv),
                      (batch, heads, n_q, n_kv)):
            values = self.numbers(product(shape))
            full = (1,) * (4 - len(shape)) + shape

            def place(b, h, i, j):
                head = (b if full[0] > 1 else 0) * full[1] + (h if full[1] > 1 else 0)
                return (head * full[2] + (i if full[2] > 1 else 0)) * n_kv + j
            expected = self.gradients(
                ["--bias", self.write("bias", "<f4", shape, values), "--sink", sink_file, "--dropout=0.5", "--seed=7"],
                wanted=("dq", "dk", "dv", "dbias", "dsink"), sinks=sinks, factor=dropout(0.5, 7, 0, heads),
                bias=lambda b, h, i, j: values[place(b, h, i, j)])
            sums = [0.0] * len(values)
            for key, d_s in expected["ds"].items():
                sums[place(*key)] += d_s
            self.assertEqual(read_npy(self.path("dbias.npy"))[:2], ("<f4", shape))
            self.assert_close(self.got("dbias"), sums, 1e-5)
            self.assert_close(self.got("dsink"), expected["dsink"], 1e-5)

    def test_gradient_by_lse(self):
        batch, heads, _, n_q, _ = self.SHAPE
        d_lse = self.numbers(batch * heads * n_q, 9)
        words = ["--grad-lse", self.write("dlse", "<f4", (batch, heads, n_q), d_lse), "--causal"]
        self.gradients(words, d_lse=d_lse, causal="bottom-right")
        sinks = self.numbers(heads, 8)
        expected = self.gradients([*words, "--sink", self.write("sinks", "<f4", (heads,), sinks)], d_lse=d_lse,
                                  causal="bottom-right", wanted=("dq", "dk", "dv", "dsink"), sinks=sinks)
        self.assert_close(self.got("dsink"), expected["dsink"], 1e-5)
        self.slope_of_loss(["--causal"], words, d_lse)

    def slope_of_loss(self, words, gradient_words, d_lse):
        """The loss sum(dO O) + sum(d_lse LSE) changes along each input as the gradients say."""
        step, tensors, seen = 1 / 64, self.tensors(), {}
        self.gradients(gradient_words, d_lse=d_lse, causal="bottom-right")
        gradients = [self.got(name) for name in ("dq", "dk", "dv")]
        d_o = self.numbers(product(self.SHAPE[:2]) * self.SHAPE[3] * self.D_V, 6)
        for which, name in enumerate("qkv"):
            kind, shape, values = read_npy(self.path(name + ".npy"))
            along = self.numbers(len(values), 20 + which)
            for sign in (1, -1):
                moved = [x + sign * step * y for x, y in zip(tensors[which], along)]
                self.write(name, kind, shape, moved)
                self.run_it("run", *self.names(), *self.outputs(), *words)
                seen[sign] = (sum(x * y for x, y in zip(d_o, self.got("o"))) +
                              sum(x * y for x, y in zip(d_lse, self.got("lse"))))
            self.write(name, kind, shape, values)
            expected = sum(x * y for x, y in zip(gradients[which], along))
            self.assertAlmostEqual((seen[1] - seen[-1]) / (2 * step), expected, delta=5e-3 * max(1.0, abs(expected)))

    def test_all_at_once(self):
        shape = (2, 4, 2, 21, 40)
        batch, heads, _, n_q, n_kv = shape
        slopes, sinks, bias = self.numbers(heads), self.numbers(heads, 2), self.numbers(n_q * n_kv, 3)
        mask, blocks = [x > -1.0 for x in self.numbers(n_q * n_kv, 4)], [True, False, True, True, True, True]
        words = ["--window=30,20", "--softcap=4", "--alibi", self.write("slopes", "<f4", (heads,), slopes), "--bias",
                 self.write("bias", "<f4", (n_q, n_kv), bias), "--mask", self.write("mask", "|b1", (n_q, n_kv), mask),
                 "--sink", self.write("sinks", "<f4", (heads,), sinks), "--dropout=0.125", "--seed=11", "--block-mask",
                 self.write("blocks", "|b1", (2, 3), blocks), "--block-size=16,16", "--key-lengths",
                 self.write("lengths", "<i4", (batch,), [40, 25]), "--causal"]
        modifications = {"window": (30, 20), "softcap": 4.0, "slope": lambda b, h: slopes[h], "sinks": sinks,
                         "bias": lambda b, h, i, j: bias[i * n_kv + j], "factor": dropout(0.125, 11, 0, heads),
                         "shown": lambda b, h, i, j: mask[i * n_kv + j] and blocks[i // 16 * 3 + j // 16],
                         "key_lengths": [40, 25], "causal": "bottom-right"}
        self.check(words, shape=shape, **modifications)
        whole, lse = self.got("o"), self.got("lse")
        self.run_it("run", *self.names(), *self.outputs(), *words, "--kv-chunk", "7")
        self.assert_close(self.got("o"), whole, 3e-6)
        self.assert_close(self.got("lse"), lse, 1e-5)
        self.gradients(words, shape=shape, tolerance=2e-5, **modifications)
        self.gradients([*words, "--kv-chunk", "11"], shape=shape, tolerance=2e-5, **modifications)


if __name__ == "__main__":
    run_tests()
