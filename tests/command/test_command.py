#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the built command on whatever OpenCL device the environment gives: every subcommand, its numbers against a plain
Python computation, and what it says and leaves behind when something is wrong. Needs Python's standard library alone.

    test_command.py CLATTN FOLDER_OF_CLINFO_DUMPS
"""
import json
import math
import os
import random
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

CLATTN = ""
DUMPS = ""
OK, MISMATCH, USAGE, FILE, DEVICE = range(5)
CODES = {"<f4": "f", "<f2": "e", "<u2": "H"}


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


class General(CommandTest):
    def test_help_and_version(self):
        text = self.run_it("--help").stdout
        for name in ("devices", "plan", "run", "verify", "bench"):
            self.assertIn(name, text)
            own = self.run_it(name, "--help").stdout
            self.assertIn("Usage:", own)
            self.assertIn("Exit status", own)
            self.assertEqual(own, self.run_it("help", name).stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^clattn \d+\.\d+\.\d+\n$")

    def test_usage(self):
        self.refused(USAGE, says=["subcommand", "Usage"])
        self.refused(USAGE, "tune", says=["'tune'", "--help"])
        self.refused(USAGE, "verfy", says=["did you mean verify"])
        self.refused(USAGE, "help", "nothing", says=["'nothing'"])
        self.refused(USAGE, "plan", "--d", "0", says=["--d '0'", "1 to 512"])
        self.refused(USAGE, "plan", "--d", "513", says=["--d '513'", "1 to 512"])
        self.refused(USAGE, "plan", "--dtpe", "fp16", says=["--dtpe", "did you mean --dtype"])
        self.refused(USAGE, "plan", "--device", "first", says=["'first'", "0:0"])
        self.refused(USAGE, "plan", "--device", "99:0", says=["99:0", "clattn devices"])
        self.refused(USAGE, "plan", "--device", "0:99", says=["0:99", "clattn devices"])
        self.refused(USAGE, "plan", "--skeleton", "none", says=["'none'", "forward_simt"])
        self.refused(USAGE, "verify", "--skeleton", "none", says=["'none'", "forward_simt"])
        self.refused(USAGE, "verify", "--quick", "--full", says=["one of them"])
        self.refused(USAGE, "bench", "--heads", "3", "--kv-heads", "2", "--n", "64", says=["--kv-heads 2", "divide"])
        self.refused(USAGE, "bench", "--n-q", "64", says=["--n-kv"])
        self.refused(USAGE, "bench", "--batch", "2", says=["--n"])
        self.refused(USAGE, "bench", "--grid", "flash", "--n", "100", says=["grid"])

    def test_no_platform(self):
        nowhere = {"OCL_ICD_VENDORS": self.path("nowhere"), "OCL_ICD_FILENAMES": ""}
        self.refused(DEVICE, "devices", environment=nowhere, says=["no OpenCL platform", "pocl-opencl-icd"])
        self.inputs()
        self.refused(DEVICE, "run", *self.names(), environment=nowhere, says=["no OpenCL platform"])
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["k.npy", "q.npy", "v.npy"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_stdout(self):
        with open("/dev/full", "wb") as full:
            self.refused(FILE, "--help", stdout=full, says=["standard output"])


class Devices(CommandTest):
    def test_list(self):
        devices = json.loads(self.run_it("devices", "--json").stdout)
        self.assertGreater(len(devices), 0)
        text = self.run_it("devices").stdout
        for device in devices:
            self.assertIn(device["device"], text)
            self.assertIn(device["name"], text)
            self.assertIn(device["driver"], text)
            self.assertGreater(device["local_memory_bytes"], 0)
            self.assertIsNone(device["problem"])
            self.assertIn(device["skeleton"], text)


class Plan(CommandTest):
    def test_device(self):
        words = ["plan", "--d", "80", "--d-v", "96", "--dtype", "fp16", "--causal", "--n", "1000"]
        plans = json.loads(self.run_it(*words, "--json").stdout)
        self.assertEqual(len(plans), 1)
        problem, plan = plans[0]["problem"], plans[0]["plan"]
        self.assertEqual([problem[key] for key in ("dtype", "d", "d_v", "causal", "n_q", "n_kv")],
                         ["fp16", 80, 96, "bottom-right", 1000, 1000])
        self.assertEqual(plan["paper_b_c"], max(1, plan["m_elements"] // (4 * 96)))  # the larger of d and d_v
        self.assertEqual(plan["paper_b_r"], max(1, min(plan["paper_b_c"], 96)))
        self.assertEqual(plan["paper_t_r"], -(-1000 // plan["paper_b_r"]))
        self.assertEqual(plan["t_c"], -(-1000 // plan["b_c"]))
        self.assertRegex(plan["program_key"], "^[0-9a-f]{16,}$")
        self.assertLessEqual(plan["local_bytes"], plan["local_bytes_limit"])
        for step in plan["steps"]:
            self.assertTrue(step["reason"])
        text = self.run_it(*words).stdout
        for number in (plan["m_elements"], plan["paper_b_c"], plan["b_r"], plan["b_c"], plan["program_key"]):
            self.assertIn(str(number), text)

    def test_dumps(self):
        dump = os.path.join(DUMPS, "nvidia-h200.json")
        plans = json.loads(self.run_it("plan", "--clinfo", dump, "--d", "128", "--json").stdout)
        self.assertEqual([p["device"]["device"] for p in plans], ["0:0", "1:0"])
        gpu = plans[1]
        self.assertEqual(gpu["device"]["name"], "NVIDIA H200")
        self.assertEqual(gpu["plan"]["paper_b_c"], gpu["plan"]["m_elements"] // 512)
        self.assertGreater(gpu["device"]["static_local_memory_bytes"], gpu["device"]["local_memory_bytes"])
        self.assertEqual(gpu["plan"]["program_key"], "")
        self.assertIn("NVIDIA H200", self.run_it("plan", "--clinfo", dump).stdout)
        with open(os.path.join(DUMPS, "pocl.raw"), "rb") as raw:
            plans = json.loads(self.run_it("plan", "--clinfo", "-", "--json", stdin=raw.read()).stdout)
        self.assertEqual(plans[0]["device"]["type"], "CPU")

    def test_dump_needs_no_platform(self):
        nowhere = {"OCL_ICD_VENDORS": self.path("nowhere")}
        self.run_it("plan", "--clinfo", os.path.join(DUMPS, "nvidia-h200.json"), environment=nowhere)

    def test_bad_dumps(self):
        self.refused(FILE, "plan", "--clinfo", self.path("absent"), says=["absent"])
        self.refused(FILE, "plan", "--clinfo", "-", stdin=b"{}", says=["standard input", "clinfo --json"])
        self.refused(USAGE, "plan", "--clinfo", "-", "--device", "0:0", says=["one of them"])

    def test_what_does_not_fit(self):
        result = self.run_it("plan", "--b-r", "65536", "--b-c", "65536", status=DEVICE)
        self.assertIn("CLATTN_NOTHING_FITS", result.stderr)
        self.assertEqual(result.stdout, "")


class Run(CommandTest):
    def check(self, kind, tolerance, shape=(2, 4, 2, 5, 9), d=8, d_v=6, causal="off", words=()):
        batch, heads, kv_heads, n_q, n_kv = shape
        q, k, v = self.inputs(kind, ((batch, heads, n_q, d), (batch, kv_heads, n_kv, d), (batch, kv_heads, n_kv, d_v)))
        rows = [word for name in ("lse", "m", "l") for word in ("--" + name, self.path(name + ".npy"))]
        self.run_it("run", *self.names(), *rows, *words)
        scale = next((float(w[8:]) for w in words if w.startswith("--scale=")), None)
        expected = attention(q, k, v, shape, d, d_v, causal, scale)
        got_kind, got_shape, o = read_npy(self.path("o.npy"))
        self.assertEqual((got_kind, got_shape), (kind, (batch, heads, n_q, d_v)))
        self.assert_close([bf16_value(b) for b in o] if kind == "<u2" else o, expected[0], tolerance)
        for name, numbers in zip(("lse", "m", "l"), expected[1:]):
            got_kind, got_shape, row = read_npy(self.path(name + ".npy"))
            self.assertEqual((got_kind, got_shape), ("<f4", (batch, heads, n_q)))
            self.assert_close(row, numbers, 1e-5)
        self.assertEqual(sorted(os.listdir(self.folder.name)),
                         sorted(name + ".npy" for name in ("q", "k", "v", "o", "lse", "m", "l")))

    def test_types(self):
        self.check("<f4", 2e-6)
        self.check("<f2", 2e-3, words=["--dtype", "fp16"])
        self.check("<u2", 2e-2, words=["--dtype", "bf16"])

    def test_masks(self):
        self.check("<f4", 2e-6, causal="bottom-right", words=["--causal"])
        self.check("<f4", 2e-6, causal="top-left", words=["--causal=top-left"])
        self.check("<f4", 2e-6, shape=(1, 2, 1, 9, 4), causal="bottom-right", words=["--causal", "bottom-right"])

    def test_scale(self):
        self.check("<f4", 2e-6, words=["--scale=0.25"])
        self.check("<f4", 2e-6, words=["--scale=-0.5"])

    def test_every_skeleton(self):
        self.check("<f4", 2e-6, words=["--skeleton", "forward_simt"])
        self.check("<f4", 2e-6, shape=(1, 1, 1, 1, 1), d=1, d_v=1, words=["--skeleton", "forward_cpu"])

    def test_bnhd(self):
        batch, heads, n_q, n_kv, d = 2, 3, 4, 5, 8
        q, k, v = self.inputs("<f4", ((batch, heads, n_q, d), (batch, heads, n_kv, d), (batch, heads, n_kv, d)))
        for name, values, n in (("q", q, n_q), ("k", k, n_kv), ("v", v, n_kv)):
            write_npy(self.path(name + ".npy"), "<f4", (batch, n, heads, d), transpose(values, batch, heads, n, d))
        self.run_it("run", *self.names(), "--lse", self.path("lse.npy"), "--layout", "bnhd")
        o, lse, _, _ = attention(q, k, v, (batch, heads, heads, n_q, n_kv), d, d)
        _, shape, got = read_npy(self.path("o.npy"))
        self.assertEqual(shape, (batch, n_q, heads, d))
        self.assert_close(got, transpose(o, batch, heads, n_q, d), 2e-6)
        _, shape, got = read_npy(self.path("lse.npy"))
        self.assertEqual(shape, (batch, heads, n_q))
        self.assert_close(got, lse, 1e-5)

    def test_fewer_dimensions(self):
        q, k, v = self.inputs("<f4", ((5, 8), (7, 8), (7, 3)))
        self.run_it("run", *self.names(), "--lse", self.path("lse.npy"))
        self.assertEqual(read_npy(self.path("o.npy"))[1], (5, 3))
        self.assertEqual(read_npy(self.path("lse.npy"))[1], (5,))
        self.assert_close(read_npy(self.path("o.npy"))[2], attention(q, k, v, (1, 1, 1, 5, 7), 8, 3)[0], 2e-6)
        self.inputs("<f4", ((4, 5, 8), (2, 7, 8), (2, 7, 3)))
        self.run_it("run", *self.names())
        self.assertEqual(read_npy(self.path("o.npy"))[1], (4, 5, 3))

    def test_zero_lengths(self):
        self.inputs("<f4", ((2, 5, 8), (2, 0, 8), (2, 0, 3)))
        self.run_it("run", *self.names(), "--lse", self.path("lse.npy"))
        self.assertEqual(set(read_npy(self.path("o.npy"))[2]), {0.0})
        self.assertEqual(set(read_npy(self.path("lse.npy"))[2]), {-math.inf})
        self.inputs("<f4", ((2, 0, 8), (2, 5, 8), (2, 5, 3)))
        self.run_it("run", *self.names())
        self.assertEqual(read_npy(self.path("o.npy"))[1:], ((2, 0, 3), ()))

    def test_summary(self):
        self.inputs()
        result = self.run_it("run", *self.names())
        self.assertRegex(result.stderr.splitlines()[-1], r"^fp32 .* ms, .* GFLOP/s, .* of device memory$")
        self.assertEqual(result.stdout, "")
        result = self.run_it("run", *self.names(), "--json", "--quiet")
        summary = json.loads(result.stdout)
        self.assertEqual((summary["n_q"], summary["n_kv"], summary["d"], summary["dtype"]), (5, 7, 8, "fp32"))
        self.assertGreater(summary["device_bytes"], 0)

    def test_an_input_may_be_replaced(self):
        q, k, v = self.inputs("<f4", ((5, 8), (5, 8), (5, 8)))
        words = self.names()
        words[-1] = self.path("q.npy")
        self.run_it("run", *words)
        self.assert_close(read_npy(self.path("q.npy"))[2], attention(q, k, v, (1, 1, 1, 5, 5), 8, 8)[0], 2e-6)

    def refused_run(self, status, *words, says=(), **options):
        """Nothing may be left behind: no output, no piece of one."""
        before = sorted(os.listdir(self.folder.name))
        self.refused(status, "run", *words, says=says, **options)
        self.assertEqual(sorted(os.listdir(self.folder.name)), before)

    def test_missing_options(self):
        self.inputs()
        self.refused_run(USAGE, says=["--q"])
        self.refused_run(USAGE, *self.names()[:4], says=["--v"])
        self.refused_run(USAGE, *self.names()[:6], says=["--out"])
        self.refused_run(USAGE, *self.names(), "--lse", self.path("o.npy"), says=["two outputs"])
        self.refused_run(USAGE, *self.names(), "--scale", "0", says=["--scale '0'"])
        self.refused_run(USAGE, *self.names(), "--layout", "nbhd", says=["'nbhd'", "bhnd, bnhd"])
        self.refused_run(USAGE, *self.names(), "--skeleton", "none", says=["'none'"])
        self.refused_run(USAGE, *self.names(), "stray", says=["'stray'"])

    def test_bad_arrays(self):
        self.inputs()
        self.refused_run(FILE, *self.names()[2:], "--q", self.path("absent.npy"), says=["absent.npy"])
        self.refused_run(FILE, *self.names()[2:], "--q", self.folder.name, says=["regular file"])
        self.refused_run(FILE, *self.names(), "--dtype", "fp16", says=["q.npy", "'<f4'", "'<f2'"])
        with open(self.path("q.npy"), "rb") as file:
            whole = file.read()
        for size in (0, 5, 9, 60, len(whole) - 1):
            with open(self.path("q.npy"), "wb") as file:
                file.write(whole[:size])
            self.refused_run(FILE, *self.names(), says=["q.npy"])
        for old, new, reason in ((b"False", b"True ", "Fortran"), (b"<f4", b">f4", "big-endian"), (b"<f4", b"|O4", "objects"),
                                 (b"(5, 8,)", b"(8, 5,)", "d is 8")):
            with open(self.path("q.npy"), "wb") as file:
                file.write(whole.replace(old, new))
            self.refused_run(FILE, *self.names(), says=[reason])
        self.inputs("<u2")
        self.refused_run(FILE, *self.names(), says=["--dtype bf16"])

    def test_outputs_that_cannot_be_written(self):
        self.inputs()
        words = self.names()[:-1]
        self.refused_run(FILE, *words, self.path("missing/o.npy"), says=["missing/o.npy"])
        self.refused_run(FILE, *words, self.folder.name, says=["cannot be written"])
        self.refused_run(FILE, *words, self.path("o.npy"), "--lse", self.path("missing/lse.npy"), says=["missing/lse.npy"])
        if os.path.exists("/dev/full"):
            self.refused_run(FILE, *words, "/dev/full", says=["/dev/full", "No space"])
            self.refused_run(FILE, *words, self.path("o.npy"), "--lse", "/dev/full", says=["/dev/full"])
            self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))

    def test_a_file_too_large_for_the_disk(self):
        """A limit of the process stands in for a disk that fills: caches are warm, so only the output meets it."""
        self.inputs("<f4", ((20000, 8), (1, 8), (1, 8)))
        self.run_it("run", *self.names())
        with open(self.path("o.npy"), "rb") as file:
            before = file.read()
        self.refused_run(FILE, *self.names(), limit=65536, says=["o.npy", "cannot be written"])
        with open(self.path("o.npy"), "rb") as file:
            self.assertEqual(file.read(), before)


class Verify(CommandTest):
    def test_some_cases(self):
        for only in (0, 5, 8, 10):
            outcome = json.loads(self.run_it("verify", "--seed", "1", "--only", only, "--json").stdout)
            self.assertEqual((outcome["cases"], outcome["failed"], outcome["seed"]), (1, 0, 1))
        self.refused(USAGE, "verify", "--only", "100000", says=["--only 100000"])

    def test_quick(self):
        result = self.run_it("verify", "--quick", "--seed", "2")
        self.assertRegex(result.stdout, r"certified: (\d+) of \1 cases passed")
        self.assertIn("seed 2", result.stdout)


class Bench(CommandTest):
    KEYS = {"device", "driver", "path", "pass", "dtype", "batch", "heads", "n_q", "n_kv", "d", "causal", "median_ms",
            "min_ms", "max_ms", "tflops", "share_of_peak", "standard_ms", "extra_bytes", "standard_bytes", "first_call_ms"}

    def test_rows(self):
        rows = json.loads(self.run_it("bench", "--n", "64,128", "--heads", "2", "--kv-heads", "1", "--causal", "both",
                                      "--repetitions", "3", "--json").stdout)
        self.assertEqual([(r["n_q"], r["causal"]) for r in rows],
                         [(64, False), (64, True), (128, False), (128, True)])
        for row in rows:
            self.assertLessEqual(self.KEYS, row.keys())
            self.assertGreater(row["median_ms"], 0.0)
            self.assertTrue(row["min_ms"] <= row["median_ms"] <= row["max_ms"])
            flops = 4.0 * 2 * row["n_q"] * row["n_kv"] * 64 * (0.5 if row["causal"] else 1.0)
            self.assertAlmostEqual(row["tflops"], flops / row["median_ms"] * 1e-9, delta=1e-3 * row["tflops"])
            self.assertAlmostEqual(row["share_of_peak"], row["tflops"] / row["peak_tflops"],
                                   delta=1e-3 * row["share_of_peak"])
            self.assertEqual(row["extra_bytes"], 4 * 2 * row["n_q"])
            if row["standard_ms"] is None:
                self.assertTrue(row["standard_problem"])
            else:
                self.assertGreaterEqual(row["standard_bytes"], 4 * 2 * row["n_q"] * row["n_kv"])

    def test_table_and_file(self):
        result = self.run_it("bench", "--n-q", "1", "--n-kv", "100", "--no-standard", "--dtype", "fp16,bf16", "--repetitions",
                             "1", "--json", self.path("rows.json"))
        self.assertIn("fp16", result.stdout)
        with open(self.path("rows.json")) as file:
            rows = json.load(file)
        self.assertEqual([row["dtype"] for row in rows], ["fp16", "bf16"])
        self.assertEqual([row["standard_ms"] for row in rows], [None, None])

    def test_grid(self):
        rows = json.loads(self.run_it("bench", "--grid", "flash", "--n", "512", "--d", "64", "--causal", "on",
                                      "--repetitions", "1", "--no-standard", "--json").stdout)
        self.assertEqual([(r["n_q"], r["d"], r["causal"], r["pass"]) for r in rows], [(512, 64, True, "forward")])


if __name__ == "__main__":
    CLATTN = os.path.abspath(sys.argv[1])
    DUMPS = os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
