#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn run` on packed sequences, on keys in pieces and on split keys."""
import json
import math
import operator
import random
import re
import struct
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CLATTN, OK, attention, product, run_tests, stored, transpose, write_npy
from modifications import ModificationsTest
from modified_attention import Modified, dropout
from terminal import on_terminal


class Pieces(ModificationsTest):
    def test_packed_sequences(self):
        self.packed_sequences()

    def test_chunks_of_packed_sequences(self):
        for chunk in (1, 3, 6, 100):
            self.packed_sequences("--kv-chunk", chunk)

    def packed_sequences(self, *words):
        heads, kv_heads, d, d_v = 4, 2, self.D, self.D_V
        rows, keys = (0, 3, 3, 8), (0, 4, 9, 11)  # the second sequence has no row
        q, k, v = self.inputs("<f4", ((heads, 8, d), (kv_heads, 11, d), (kv_heads, 11, d_v)))
        d_o = self.numbers(heads * 8 * d_v)
        wanted = [word for name in ("dq", "dk", "dv") for word in ("--" + name, self.path(name + ".npy"))]
        self.run_it("run", *self.names(), *self.outputs(), *wanted, "--grad-out", self.write("do", "<f4", (heads, 8, d_v), d_o),
                    "--cu-seqlens-q", self.write("rows", "<i4", (4,), rows), "--cu-seqlens-kv",
                    self.write("keys", "<i8", (4,), keys), "--causal", "--dropout", "0.5", "--seed", "3", *words)

        def cut(values, heads, total, width, first, last):
            return [x for h in range(heads) for x in values[(h * total + first) * width:(h * total + last) * width]]
        for s in range(3):
            (r, r_end), (c, c_end) = rows[s:s + 2], keys[s:s + 2]
            one = Modified((1, heads, kv_heads, r_end - r, c_end - c), d, d_v, causal="bottom-right",
                           factor=dropout(0.5, 3, 0, heads), first_b=s)
            expected = one.compute(cut(q, heads, 8, d, r, r_end), cut(k, kv_heads, 11, d, c, c_end),
                                   cut(v, kv_heads, 11, d_v, c, c_end), cut(d_o, heads, 8, d_v, r, r_end))
            for name, width in (("o", d_v), ("lse", 1), ("m", 1), ("l", 1), ("dq", d)):
                self.assert_close(cut(self.got(name), heads, 8, width, r, r_end), expected[name], 1e-5)
            for name, width in (("dk", d), ("dv", d_v)):
                self.assert_close(cut(self.got(name), kv_heads, 11, width, c, c_end), expected[name], 1e-5)

    def test_chunks(self):
        q, k, v = self.tensors(shape=(1, 4, 2, 6, 300))
        expected = Modified((1, 4, 2, 6, 300), self.D, self.D_V, causal="bottom-right").compute(q, k, v)
        again = []
        for chunk in (1, 64, 64, 299, 300, 5000):
            summary = json.loads(self.run_it("run", *self.names(), *self.outputs(), "--causal", "--kv-chunk", chunk,
                                             "--json").stdout)
            self.assertEqual(summary["kv_chunk"], chunk)
            self.assert_close(self.got("o"), expected["o"], 3e-6)
            for name in ("lse", "m", "l"):
                self.assert_close(self.got(name), expected[name], 1e-5)
            again.append((self.got("o"), self.got("lse")))
        self.assertEqual(again[1], again[2])
        for chunk in (1, 2, 100):
            self.gradients(["--kv-chunk", chunk], wanted=("dq", "dk", "dv"))
        self.gradients(["--kv-chunk", "4"], wanted=("dk",))
        for kind in ("<f2", "<u2"):
            self.check(["--kv-chunk", "4"], kind=kind, tolerance=3e-2)

    def test_memory(self):
        """Forward and backward each say what they need; with the larger of both, keys come in pieces."""
        shape = (1, 4, 2, 6, 300)
        self.tensors(shape=shape)
        words = ["run", *self.names(), *self.outputs(), "--causal", "--json", "--memory"]
        whole = json.loads(self.run_it(*words, 1 << 30).stdout)
        self.assertEqual(whole["kv_chunk"], 0)
        said = self.refused(4, *words, "1", says=("CLATTN_TOO_LARGE",)).stderr
        least = int(re.search(r"at least (\d+)", said).group(1))
        self.assertLess(least, whole["device_bytes"])
        self.refused(4, *words, least - 1, says=("at least %d" % least,))
        self.assertEqual(json.loads(self.run_it(*words, least).stdout)["kv_chunk"], 1)
        self.check(["--causal", "--memory", whole["device_bytes"] - 1], shape=shape, causal="bottom-right")
        self.gradients(["--memory", 2 * whole["device_bytes"]], shape=shape)

    def test_splits(self):
        q, k, v = self.tensors(shape=(1, 4, 2, 6, 300))
        expected = Modified((1, 4, 2, 6, 300), self.D, self.D_V, causal="bottom-right").compute(q, k, v)
        for splits in (1, 3, 3, 256):
            done = self.run_it("run", *self.names(), *self.outputs(), "--causal", "--splits", splits, "--json")
            self.assertEqual(json.loads(done.stdout)["splits"], splits)
            self.assert_close(self.got("o"), expected["o"], 3e-6)
            for name in ("lse", "m", "l"):
                self.assert_close(self.got(name), expected[name], 1e-5)
        text = self.run_it("run", *self.names(), *self.outputs(), "--causal", "--splits", "3").stderr
        self.assertIn("keys split into 3", text)
        self.gradients(["--splits", "2"], wanted=("dq", "dk", "dv"))
        self.refused(2, "run", *self.names(), *self.outputs(), "--splits", "2", "--kv-chunk", "9",
                     says=("--splits and --kv-chunk",))

    def sparse_npy(self, name, shape, rows):
        """A file of zeros, which takes no room on the disk, but for some rows, numbered through heads and keys."""
        header = ("{'descr': '<f2', 'fortran_order': False, 'shape': (1, %d, %d, %d), }" % shape).ljust(117) + "\n"
        bytes_of_a_row = shape[2] * 2
        with open(self.path(name), "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            first = file.tell()
            file.truncate(first + product(shape) * 2)
            for row, values in rows.items():
                file.seek(first + row * bytes_of_a_row)
                file.write(struct.pack("<%de" % shape[2], *values))

    def test_keys_larger_than_the_device_allocates(self):
        """With POCL_MEMORY_LIMIT, of GiB, PoCL says and enforces that buffers have a quarter of it at most."""
        heads, keys, d, limit = 512, 10_000, 32, 1 << 28
        environment = {"POCL_MEMORY_LIMIT": "1"}
        devices = json.loads(self.run_it("devices", "--json", environment=environment).stdout)
        if devices[0]["max_allocation_bytes"] != limit:
            self.skipTest("not PoCL, or one that allocates otherwise")
        self.assertGreater(heads * keys * d * 2, limit)
        source = random.Random(8)
        row = lambda spread: stored("<f2", [source.gauss(0.0, spread) for _ in range(d)])[0]
        places = {h: (0, 1, 3_333, 9_000 + h, keys - 1) for h in (0, 7, heads - 1)}
        k = {h * keys + j: row(3.0) for h in places for j in places[h]}
        v = {place: row(1e4) for place in k}
        q = {h: row(1.0) for h in range(heads)}
        self.sparse_npy("q.npy", (heads, 1, d), q)
        self.sparse_npy("k.npy", (heads, keys, d), k)
        self.sparse_npy("v.npy", (heads, keys, d), v)
        words = ["run", *self.names(), "--lse", self.path("lse.npy")]
        summary = json.loads(self.run_it(*words, "--json", environment=environment).stdout)
        self.assertTrue(0 < summary["kv_chunk"] * heads * d * 2 <= limit, summary)
        out, lse = self.got("o", "<f2"), self.got("lse")
        for h in range(heads):
            scores = {j: sum(map(operator.mul, q[h], k[h * keys + j])) / math.sqrt(d) for j in places.get(h, ())}
            total = sum(map(math.exp, scores.values())) + keys - len(scores)  # the others have a score of 0
            self.assertAlmostEqual(lse[h], math.log(total), delta=5e-4)  # 10,000 sums in fp32
            for c in range(d):
                parts = [math.exp(score) * v[h * keys + j][c] / total for j, score in scores.items()]
                self.assertAlmostEqual(out[h * d + c], sum(parts), delta=2e-3 * sum(map(abs, parts)) + 1e-7)
        status, shown = on_terminal([CLATTN, *words], "stderr", environment)
        self.assertEqual(status, OK)
        self.assertIn("%d of %d keys" % (summary["kv_chunk"], keys), shown)
        self.assertIn("%d of %d keys" % (keys, keys), shown)

    def test_chunks_of_bnhd(self):
        batch, heads, n_q, n_kv, d = 2, 3, 4, 9, 8
        q, k, v = self.inputs("<f4", ((batch, heads, n_q, d), (batch, heads, n_kv, d), (batch, heads, n_kv, d)))
        for name, values, n in (("q", q, n_q), ("k", k, n_kv), ("v", v, n_kv)):
            write_npy(self.path(name + ".npy"), "<f4", (batch, n, heads, d), transpose(values, batch, heads, n, d))
        self.run_it("run", *self.names(), "--layout", "bnhd", "--kv-chunk", "4")
        o = attention(q, k, v, (batch, heads, heads, n_q, n_kv), d, d)[0]
        self.assert_close(self.got("o"), transpose(o, batch, heads, n_q, d), 2e-6)


if __name__ == "__main__":
    run_tests()
