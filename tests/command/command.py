# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of the command share: running it, its files, and plain Python computations to compare with. They run
the built command on whatever OpenCL device the environment gives and need Python's standard library alone. Each is run as

    test_....py CLATTN FOLDER_OF_CLINFO_DUMPS FAULT_LAYER.so [NAME_OF_A_TEST...]
"""
import json
import math
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

CLATTN, DUMPS, LAYER = map(os.path.abspath, sys.argv[1:4])  # the layer can make a read from the device lie: fault/layer.c
OK, MISMATCH, USAGE, FILE, DEVICE = range(5)
CODES = {"<f4": "f", "<f2": "e", "<u2": "H", "|b1": "?", "|u1": "B", "|i1": "b", "<i4": "i", "<i8": "q"}


def product(numbers):
    return math.prod(numbers)


def write_npy(path, kind, shape, values):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header = header.ljust(-(10 + len(header) + 1) % 64 + len(header)) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack("<%d%s" % (len(values), CODES[kind]), *values))


def read_npy(path):
    """Kind, shape and values, as NumPy's own description of the format has them."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    length, = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n"
    header = eval(data[10:10 + length].decode(), {})  # a literal that this test's subject wrote
    values = struct.unpack("<%d%s" % (product(header["shape"]), CODES[header["descr"]]), data[10 + length:])
    return header["descr"], header["shape"], values


def bf16_bits(value):
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def stored(kind, values):
    """The values as they are after a file has rounded them, and as the file holds them."""
    if kind == "<u2":
        bits = [bf16_bits(v) for v in values]
        return [bf16_value(b) for b in bits], bits
    rounded = list(struct.unpack("<%d%s" % (len(values), CODES[kind]),
                                 struct.pack("<%d%s" % (len(values), CODES[kind]), *values)))
    return rounded, rounded


def attention(q, k, v, shape, d, d_v, causal="off", scale=None):
    """O, LSE, m and l of dense [batch, heads, n, d] lists; shape is batch, heads, kv_heads, n_q, n_kv."""
    batch, heads, kv_heads, n_q, n_kv = shape
    scale = scale or 1.0 / math.sqrt(d)
    out, lse, maxima, sums = [], [], [], []
    for b in range(batch):
        for h in range(heads):
            first = (b * kv_heads + h // (heads // kv_heads)) * n_kv
            for i in range(n_q):
                row = q[((b * heads + h) * n_q + i) * d:][:d]
                seen = {"off": n_kv, "top-left": i + 1, "bottom-right": i + 1 + n_kv - n_q}[causal]
                seen = range(first, first + max(0, min(n_kv, seen)))
                scores = [scale * sum(x * y for x, y in zip(row, k[j * d:][:d])) for j in seen]
                m = max(scores, default=-math.inf)
                weights = [math.exp(s - m) for s in scores]
                total = sum(weights)
                out += [sum(w * v[j * d_v + c] for w, j in zip(weights, seen)) / total if total else 0.0
                        for c in range(d_v)]
                lse.append(m + math.log(total) if total else -math.inf)
                maxima.append(m)
                sums.append(total)
    return out, lse, maxima, sums


def transpose(values, batch, heads, n, d):
    """[batch, heads, n, d] to [batch, n, heads, d]."""
    return [values[((b * heads + h) * n + i) * d + c]
            for b in range(batch) for i in range(n) for h in range(heads) for c in range(d)]


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_it(self, *words, status=OK, environment=None, stdin=None, stdout=subprocess.PIPE, limit=None):
        def prepare():
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        result = subprocess.run([CLATTN, *map(str, words)], stdout=stdout, stderr=subprocess.PIPE, input=stdin,
                                env={**os.environ, **(environment or {})}, preexec_fn=prepare, timeout=600)
        result.stderr = result.stderr.decode(errors="replace")
        result.stdout = (result.stdout or b"").decode(errors="replace")
        self.assertEqual(result.returncode, status, "clattn %s: %s" % (" ".join(map(str, words)), result.stderr))
        return result

    def on_cpu(self):
        """Whether the device that the command takes is a CPU: a GPU has grids and skeletons of its own."""
        return json.loads(self.run_it("devices", "--json").stdout)[0]["type"] == "CPU"

    def refused(self, status, *words, says=(), **options):
        result = self.run_it(*words, status=status, **options)
        for text in says:
            self.assertIn(text, result.stderr)
        return result

    def inputs(self, kind="<f4", shapes=((5, 8), (7, 8), (7, 8)), seed=1):
        """Files q.npy, k.npy and v.npy of random numbers; returns their values as they were stored."""
        source, values = random.Random(seed), []
        for name, shape in zip("qkv", shapes):
            rounded, data = stored(kind, [source.gauss(0.0, 1.5) for _ in range(product(shape))])
            write_npy(self.path(name + ".npy"), kind, shape, data)
            values.append(rounded)
        return values

    def names(self):
        return ["--q", self.path("q.npy"), "--k", self.path("k.npy"), "--v", self.path("v.npy"), "--out",
                self.path("o.npy")]

    def assert_close(self, got, expected, tolerance):
        self.assertEqual(len(got), len(expected))
        for g, e in zip(got, expected):
            if math.isinf(e):
                self.assertEqual(g, e)
            else:
                self.assertLessEqual(abs(g - e), tolerance * (1.0 + abs(e)))


def run_tests():
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
