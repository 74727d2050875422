# SPDX-License-Identifier: BSD-2-Clause
"""`clattn run` with modifications of the scores, in both directions, and what it is to answer."""
import random

from command import CommandTest, bf16_value, product, read_npy, stored, write_npy
from modified_attention import Modified


class ModificationsTest(CommandTest):
    SHAPE = (2, 4, 2, 5, 9)
    D, D_V = 8, 6

    def write(self, name, kind, shape, values):
        write_npy(self.path(name + ".npy"), kind, shape, values)
        return self.path(name + ".npy")

    def text(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def numbers(self, count, seed=5):
        return stored("<f4", [random.Random(seed).gauss(0.0, 1.0) for _ in range(count)])[0]

    def tensors(self, kind="<f4", shape=None):
        batch, heads, kv_heads, n_q, n_kv = shape or self.SHAPE
        return self.inputs(kind, ((batch, heads, n_q, self.D), (batch, kv_heads, n_kv, self.D),
                                  (batch, kv_heads, n_kv, self.D_V)))

    def outputs(self):
        return [word for name in ("lse", "m", "l") for word in ("--" + name, self.path(name + ".npy"))]

    def got(self, name, kind="<f4"):
        values = read_npy(self.path(name + ".npy"))[2]
        return [bf16_value(b) for b in values] if kind == "<u2" else values

    def check(self, words, kind="<f4", tolerance=3e-6, shape=None, **modifications):
        q, k, v = self.tensors(kind, shape)
        self.run_it("run", *self.names(), *self.outputs(), *words, *(["--dtype", "bf16"] if kind == "<u2" else []))
        expected = Modified(shape or self.SHAPE, self.D, self.D_V, **modifications).compute(q, k, v)
        self.assert_close(self.got("o", kind), expected["o"], tolerance)
        for name in ("lse", "m", "l"):
            self.assert_close(self.got(name), expected[name], max(1e-5, tolerance if kind != "<f4" else 0.0))

    def gradients(self, words, wanted=("dq", "dk", "dv"), shape=None, tolerance=1e-5, **modifications):
        """Runs both directions and compares the gradients named; returns the reference's answer."""
        shape = shape or self.SHAPE
        q, k, v = self.tensors(shape=shape)
        d_o = self.numbers(product(shape[:2]) * shape[3] * self.D_V, 6)
        names = [word for name in wanted for word in ("--" + name, self.path(name + ".npy"))]
        self.run_it("run", *self.names(), "--grad-out",
                    self.write("do", "<f4", (shape[0], shape[1], shape[3], self.D_V), d_o), *names, *words)
        expected = Modified(shape, self.D, self.D_V, **modifications).compute(q, k, v, d_o)
        self.assert_close(self.got("o"), expected["o"], tolerance)
        for name, array in (("dq", "q"), ("dk", "k"), ("dv", "v")):
            if name in wanted:
                self.assertEqual(read_npy(self.path(name + ".npy"))[:2], read_npy(self.path(array + ".npy"))[:2])
                self.assert_close(self.got(name), expected[name], tolerance)
        return expected
