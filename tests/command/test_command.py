#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the built command on whatever OpenCL device the environment gives: every subcommand, its numbers against a plain
Python computation, and what it says and leaves behind when something is wrong. Needs Python's standard library alone.

    test_command.py CLATTN FOLDER_OF_CLINFO_DUMPS FAULT_LAYER.so
"""
import json
import math
import operator
import os
import random
import re
import resource
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
from modified_attention import Modified, dropout
from terminal import on_terminal
from terminal import on_terminal

CLATTN = ""
DUMPS = ""
LAYER = ""  # tests/fault/layer.c, built: an OpenCL layer that can make a read from the device lie
OK, MISMATCH, USAGE, FILE, DEVICE = range(5)
CODES = {"<f4": "f", "<f2": "e", "<u2": "H", "|b1": "?", "|u1": "B", "<i4": "i", "<i8": "q"}


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
        for name in ("devices", "plan", "run", "verify", "bench", "completion"):
            self.assertIn(name, text)
            own = self.run_it(name, "--help").stdout
            self.assertIn("Usage:", own)
            self.assertIn("Exit status", own)
            self.assertEqual(own, self.run_it("help", name).stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^clattn \d+\.\d+\.\d+\n$")

    def test_usage(self):
        self.refused(USAGE, says=["subcommand", "Usage"])
        self.refused(USAGE, "frobnicate", says=["'frobnicate'", "--help"])
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
        traffic = plan["traffic"]
        paper = 1000 * 1000 * 96 * 96 / plan["m_elements"] * 2
        self.assertAlmostEqual(traffic["paper_bytes"], paper, delta=1e-4 * paper)
        self.assertLess(traffic["least_bytes"], traffic["flash_bytes"])
        self.assertLess(traffic["flash_bytes"], traffic["standard_bytes"])
        self.assertIsNone(json.loads(self.run_it("plan", "--json").stdout)[0]["plan"]["traffic"])
        for step in plan["steps"]:
            self.assertTrue(step["reason"])
        text = self.run_it(*words).stdout
        for number in (plan["m_elements"], plan["paper_b_c"], plan["b_r"], plan["b_c"], plan["program_key"]):
            self.assertIn(str(number), text)

    def test_splits(self):
        words = ["plan", "--clinfo", os.path.join(DUMPS, "nvidia-h200.json"), "--dtype", "fp16", "--d", "128", "--json"]
        plans = lambda *more: [item["plan"] for item in json.loads(self.run_it(*words, *more).stdout)
                               if "matrix" in item["plan"]["skeleton"] or "hopper" in item["plan"]["skeleton"]]
        for plan in plans("--n-q", "1", "--n-kv", "65536", "--heads", "8"):
            self.assertGreaterEqual(plan["splits"], 132 // 8)
            self.assertTrue(any(step["name"] == "splits" for step in plan["steps"]))
        for more in (["--n-q", "1", "--n-kv", "65536"], ["--n-q", "1", "--n-kv", "65536", "--heads", "8", "--splits", "1"],
                     ["--n", "4096", "--heads", "64"]):
            self.assertEqual([plan["splits"] for plan in plans(*more)], [1] * len(plans(*more)), more)
        self.assertEqual({plan["splits"] for plan in plans("--splits", "5")}, {5})
        self.refused(2, "plan", "--splits", "0", says=("--splits",))

    def test_passes(self):
        expected = {"forward": [("forward", "b_r", None)], "accumulate": [("accumulate", "b_r", None)],
                    "backward": [("dq", "b_r", None), ("dk_dv", None, "b_c"), ("d_bias", "b_r", "b_c")]}
        expected["backward-accumulate"] = expected["backward"]
        for name, kernels in expected.items():
            words = ["plan", "--pass", name, "--d", "40", "--n-q", "1000", "--n-kv", "3000"]
            item = json.loads(self.run_it(*words, "--json").stdout)[0]
            plan = item["plan"]
            self.assertEqual(item["problem"]["pass"], name)
            self.assertEqual(plan["skeleton"].split("_")[0], "backward" if "backward" in name else "forward")
            for got, (kernel, rows, keys) in zip(plan["kernels"], kernels):
                self.assertEqual((got["name"], got["rows"], got["keys"]), (kernel, rows and plan[rows], keys and plan[keys]))
                self.assertEqual(got["groups_per_head"], (plan["t_r"] if rows else 1) * (plan["t_c"] if keys else 1))
            self.assertEqual(len(plan["kernels"]), len(kernels))
            text = self.run_it(*words).stdout
            for kernel in plan["kernels"]:
                self.assertRegex(text, r"%s +a work-group holds" % kernel["name"])
        self.refused(USAGE, "plan", "--pass", "sideways", says=["'sideways'", "backward"])
        self.refused(USAGE, "plan", "--pass", "backward", "--skeleton", "forward_cpu", says=["forward_cpu", "backward_cpu"])

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

    def test_small_grids(self):
        """Few blocks of rows are planned by their number, and not by what was measured with many."""
        words = ["plan", "--clinfo", os.path.join(DUMPS, "nvidia-h200.json"), "--dtype", "fp16", "--n", "16384", "--json"]

        def plan(*more):
            made = json.loads(self.run_it(*words, *more).stdout)[1]["plan"]
            return made["skeleton"], made["b_r"], made["splits"], made["chosen_by"]
        few, many = ["--heads", "4"], ["--heads", "32"]
        self.assertEqual(plan("--d", "64", "--causal", *many), ("forward_hopper", 192, 1, "the built-in table"))
        self.assertEqual(plan("--d", "64", "--causal", *few), ("forward_hopper", 128, 1, "the model"))
        self.assertEqual(plan("--d", "64", *few), ("forward_hopper", 192, 1, "the model"))
        self.assertEqual(plan("--d", "128", *many)[3], "the built-in table")
        self.assertEqual(plan("--d", "128", *few), ("forward_hopper", 128, 1, "the model"))

    def test_sums(self):
        """Where the kernel of dK and dV sums up dQ, the plan says so."""
        dump = os.path.join(DUMPS, "nvidia-h200.json")
        words = ["plan", "--clinfo", dump, "--pass", "backward", "--dtype", "fp16", "--n", "4096", "--heads", "8"]
        cpu, gpu = [item["plan"] for item in json.loads(self.run_it(*words, "--json").stdout)]
        self.assertEqual((cpu["skeleton"], cpu["sums"]), ("backward_cpu", False))
        self.assertEqual((gpu["skeleton"], gpu["sums"]), ("backward_hopper", True))
        text = self.run_it(*words).stdout
        self.assertIn("ends the sums of %d rows" % gpu["b_r"], text)
        self.assertIn("dQ is summed up in the workspace", text)

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
        cached = {"CLATTN_CACHE_DIR": self.path("cache")}
        self.run_it("run", *self.names(), environment=cached)
        with open(self.path("o.npy"), "rb") as file:
            before = file.read()
        self.refused_run(FILE, *self.names(), environment=cached, limit=65536, says=["o.npy", "cannot be written"])
        with open(self.path("o.npy"), "rb") as file:
            self.assertEqual(file.read(), before)


class Modifications(CommandTest):
    """`clattn run` with every modification of the scores, in both directions."""
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
                      (batch, 1, 1, n_kv)):
            values = self.numbers(product(shape))
            full = (1,) * (4 - len(shape)) + shape

            def bias(b, h, i, j):
                at = [x if length > 1 else 0 for x, length in zip((b, h, i, j), full)]
                return values[((at[0] * full[1] + at[1]) * full[2] + at[2]) * full[3] + at[3]]
            self.check(["--bias", self.write("bias", "<f4", shape, values)], bias=bias)
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

    def test_sinks(self):
        sinks = self.numbers(3) + [-math.inf]
        file = self.write("sinks", "<f4", (4,), sinks)
        self.check(["--sink", file], sinks=sinks)
        self.check(["--sink", file, "--causal"], shape=(2, 4, 2, 9, 5), sinks=sinks, causal="bottom-right")

    def test_dropout(self):
        shape = (2, 4, 2, 5, 70)
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
        for shape in ((n_q, n_kv), (heads, n_q, n_kv), (batch, 1, n_q, n_kv), (batch, heads, n_q, n_kv)):
            values = self.numbers(product(shape))
            full = (1,) * (4 - len(shape)) + shape

            def place(b, h, i, j):
                return (((b if full[0] > 1 else 0) * full[1] + (h if full[1] > 1 else 0)) * n_q + i) * n_kv + j
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

    def refused_run(self, status, *words, says=()):
        before = sorted(os.listdir(self.folder.name))
        self.refused(status, "run", *self.names(), *words, says=says)
        self.assertEqual(sorted(os.listdir(self.folder.name)), before)

    def test_wrong_values(self):
        self.tensors()
        some = self.write("some", "<f4", (4,), self.numbers(4))
        for words, says in (
                (["--window", "3"], ["--window", "128,0"]), (["--window", "-2,0"], ["--window '-2'", "-1"]),
                (["--window", "1,2,3"], ["--window", "two"]), (["--softcap", "-1"], ["--softcap '-1'", "greater than 0"]),
                (["--dropout", "1", "--seed", "1"], ["--dropout '1'", "less than 1"]),
                (["--dropout", "0.5"], ["--dropout", "--seed"]), (["--seed", "5"], ["--seed", "--dropout"]),
                (["--block-mask", some], ["--block-mask", "--block-size"]), (["--block-size", "16,16"], ["--block-mask"]),
                (["--block-indptr", some, "--block-size", "16,16"], ["--block-indptr", "--block-indices"]),
                (["--block-indices", some], ["--block-indices", "--block-indptr"]),
                (["--block-indptr", some, "--block-indices", some], ["--block-indptr", "--block-size"]),
                (["--block-mask", some, "--block-indptr", some, "--block-indices", some, "--block-size", "16,16"],
                 ["--block-mask", "--block-indptr", "one"]),
                (["--block-mask", some, "--block-size", "16,24"], ["--block-size '24'", "16"]),
                (["--block-mask", some, "--block-size", "16"], ["--block-size", "two"]),
                (["--cu-seqlens-q", some], ["--cu-seqlens-kv"]), (["--cu-seqlens-kv", some], ["--cu-seqlens-q"]),
                (["--score-mod-grad", some], ["--score-mod"]), (["--data", some], ["--score-mod", "--mask-mod"]),
                (["--dq", self.path("dq.npy")], ["--dq", "--grad-out"]), (["--grad-out", some], ["--dq", "--dv"]),
                (["--grad-out", some, "--dbias", self.path("x.npy")], ["--dbias", "--bias"]),
                (["--grad-out", some, "--dsink", self.path("x.npy")], ["--dsink", "--sink"]),
                (["--grad-out", some, "--dq", self.path("o.npy")], ["two outputs"]),
                (["--grad-out", some, "--dq", self.path("dq.npy"), "--score-mod", some], ["--score-mod-grad"]),
                (["--backward-skeleton", "backward_cpu"], ["--grad-out"]),
                (["--kv-chunk", "0"], ["--kv-chunk '0'"])):
            self.refused_run(USAGE, *words, says=says)

    def test_wrong_arrays(self):
        self.tensors()

        def file(kind, *shape):
            return self.write("wrong", kind, shape, [0] * product(shape))
        self.refused_run(FILE, "--bias", file("<f4", 5, 8), says=["wrong.npy", "--bias", "(5, 8)", "(5, 9)"])
        self.refused_run(FILE, "--bias", file("<f4", 9), says=["--bias", "(9,)", "(4, 5, 9)"])
        self.refused_run(FILE, "--bias", file("<f4", 3, 1, 5, 9), says=["(3, 1, 5, 9)", "(2, 4, 5, 9)"])
        self.refused_run(FILE, "--bias", file("<f2", 5, 9), says=["--bias", "'<f2'", "'<f4'"])
        self.refused_run(FILE, "--mask", file("<f4", 5, 9), says=["--mask", "'<f4'", "bool"])
        self.refused_run(FILE, "--mask", file("|b1", 9, 5), says=["--mask", "(9, 5)"])
        self.refused_run(FILE, "--alibi", file("<f4", 3), says=["--alibi", "(3,)", "(4,)"])
        self.refused_run(FILE, "--alibi", file("<f2", 4), says=["--alibi", "'<f4'"])
        self.refused_run(FILE, "--sink", file("<f4", 2, 4), says=["--sink", "(2, 4)", "(4,)"])
        self.refused_run(FILE, "--key-lengths", file("<i4", 3), says=["--key-lengths", "(3,)", "(2,)"])
        self.refused_run(FILE, "--key-lengths", file("<f4", 2), says=["--key-lengths", "int32"])
        self.refused_run(FILE, "--key-lengths", self.write("wrong", "<i8", (2,), [1, 10]), says=["number 1 is 10", "0 to 9"])
        def blocks(pointers, numbers, shape=None):
            return ["--block-indptr", self.write("indptr", "<i4", shape or (len(pointers),), pointers), "--block-indices",
                    self.write("indices", "<i4", (len(numbers),), numbers), "--block-size", "16,16"]
        self.refused_run(FILE, *blocks([0, 1, 1], [0]), says=["--block-indptr", "(3,)", "(2,)"])
        self.refused_run(FILE, *blocks([0, 2], [0]), says=["--block-indptr", "number 1 is 2", "from 0 to 1"])
        self.refused_run(FILE, *blocks([1, 0], [0]), says=["--block-indptr", "number 1 is 0", "less than the 1"])
        self.refused_run(FILE, *blocks([0, 1], [1]), says=["--block-indices", "number 0 is 1", "from 0 to 0"])
        self.refused_run(FILE, "--block-mask", file("|b1", 2, 2), "--block-size", "16,16",
                         says=["--block-mask", "(2, 2)", "(1, 1)"])
        self.refused_run(FILE, "--score-mod", self.path("absent.cl"), says=["absent.cl"])
        self.refused_run(FILE, "--mask-mod", self.text("empty.cl", ""), says=["empty.cl", "--mask-mod", "empty"])
        self.refused_run(FILE, "--grad-out", file("<f4", 2, 4, 5, 8), "--dq", self.path("dq.npy"),
                         says=["dO has shape (2, 4, 5, 8)", "that of V, 6"])
        self.refused_run(FILE, "--bias", self.write("wrong", "<f4", (2, 1, 1, 9), [0.0] * 18), "--grad-out",
                         self.write("do", "<f4", (2, 4, 5, 6), [0.0] * 240), "--dbias", self.path("x.npy"),
                         says=["--dbias", "row for each query"])
        for name in "qkv":
            write_npy(self.path(name + ".npy"), "|b1", (5, 8), [True] * 40)
        self.refused_run(FILE, says=["q.npy", "'|b1'", "'<f4'"])

    def test_wrong_sequences(self):
        self.inputs("<f4", ((2, 8, 8), (2, 11, 8), (2, 11, 6)))
        good = self.write("good", "<i4", (3,), [0, 4, 8])
        for keys, says in (([0, 5, 10], ["from 0 to 10", "from 0 to 11"]), ([0, 12, 11], ["number 1 is 12"]),
                           ([1, 5, 11], ["from 1 to 11"]), ([0, 7, 3, 11], ["number 2 is 3", "7"]),
                           ([0, 3, 5, 11], ["(4,)", "(3,)"])):
            self.refused_run(FILE, "--cu-seqlens-q", good, "--cu-seqlens-kv",
                             self.write("wrong", "<i4", (len(keys),), keys), says=["--cu-seqlens-kv", *says])
        self.tensors()
        self.refused_run(FILE, "--cu-seqlens-q", good, "--cu-seqlens-kv", good, says=["[heads, total, d]"])


class Verify(CommandTest):
    def test_some_cases(self):
        for only in (0, 5, 8, 10):
            outcome = json.loads(self.run_it("verify", "--seed", "1", "--only", only, "--json").stdout)
            self.assertEqual((outcome["cases"], outcome["failed"], outcome["seed"]), (1, 0, 1))
        self.refused(USAGE, "verify", "--only", "100000", says=["--only 100000"])

    def test_parts(self):
        """Three parts are all of the cases, each once. (The kernels are those of test_quick, which are compiled once.)"""
        words = ["verify", "--seed", "2", "--skeleton", "forward_cpu", "--json"]
        refused = self.refused(USAGE, "verify", "--seed", "2", "--skeleton", "forward_cpu", "--only", "100000").stderr
        whole = int(re.search(r"numbered 0 to (\d+)", refused)[1]) + 1
        parts = [json.loads(self.run_it(*words, "--part", "%d/3" % part).stdout) for part in (1, 2, 3)]
        self.assertEqual(sum(part["cases"] for part in parts), whole)
        for part in parts:
            self.assertGreater(part["cases"], whole // 6)
        for wrong in ("0/3", "4/3", "1", "1/3x", "a/b", "1/0"):
            self.refused(USAGE, "verify", "--part", wrong, says=["--part '%s'" % wrong, "2/8"])
        self.refused(USAGE, "verify", "--part", "1/2", "--only", "1", says=["one of them"])
        self.refused(USAGE, "verify", "--part", "9999/10000", says=["--part 9999/10000"])

    def test_wrong_results(self):
        """A case reads q, k, v, o, lse, m and l back from the device, in this order; one of these reads is made to lie."""
        case = ["verify", "--seed", "1", "--only", "0"]
        reads = [(name, "this input was changed") for name in ("q", "k", "v")]
        reads += [("o", "is allowed|outside the tensor")]  # where its rows have gaps, the lie may lie in one
        reads += [(name, "is allowed") for name in ("lse", "m", "ln l")]
        self.run_it(*case, environment={"OPENCL_LAYERS": LAYER})
        for number, (name, reason) in enumerate(reads, 1):
            lie = {"OPENCL_LAYERS": LAYER, "CLATTN_FAULT_CORRUPT_READ": str(number)}
            outcome = json.loads(self.run_it(*case, "--json", environment=lie, status=MISMATCH).stdout)
            self.assertEqual((outcome["cases"], outcome["passed"], outcome["failed"]), (1, 0, 1))
            failure = outcome["failures"][0]
            self.assertRegex(failure["reason"], "^%s: .*(%s)" % (name, reason))
            self.assertIn("--seed 1", failure["reproduce"])
        result = self.run_it(*case, environment=lie, status=MISMATCH)
        self.assertRegex(result.stdout, r"FAILED case 0: .*\n  ln l: error .*\n  reproduce: clattn verify .* --only 0\n")
        self.assertIn("FAILED: 0 of 1 cases passed", result.stdout)

    def test_quick(self):
        result = self.run_it("verify", "--quick", "--seed", "2")
        self.assertRegex(result.stdout, r"certified: (\d+) of \1 cases passed")
        self.assertIn("seed 2", result.stdout)


class Terminal(CommandTest):
    """Bars and colours are for terminals."""
    WORDS = ["verify", "--seed", "1", "--only", "0"]
    BAR = "\r\033[K"

    def stderr_of(self, *words, **environment):
        status, text = on_terminal([CLATTN, *words], "stderr", environment)
        self.assertEqual(status, OK)
        return text

    def test_bars(self):
        text = self.stderr_of(*self.WORDS)
        self.assertIn(self.BAR, text)
        self.assertIn("\033[32m", text)
        plain = self.stderr_of(*self.WORDS, NO_COLOR="1")
        self.assertIn(self.BAR, plain)
        self.assertNotIn("\033[32m", plain)
        self.assertNotIn("\033", self.stderr_of(*self.WORDS, TERM="dumb"))
        self.assertEqual(self.stderr_of(*self.WORDS, "--quiet"), "")
        self.assertNotIn("\033", self.run_it(*self.WORDS).stderr)


class Bench(CommandTest):
    KEYS = {"device", "driver", "path", "pass", "dtype", "batch", "heads", "n_q", "n_kv", "d", "causal", "median_ms",
            "min_ms", "max_ms", "q1_ms", "q3_ms", "tflops", "share_of_peak", "share_problem", "standard_ms", "extra_bytes",
            "standard_bytes", "first_call_ms", "grid", "problem", "peak_of", "copy_gbps", "intensity", "limit_tflops",
            "share_of_limit", "limited_by", "peak_bytes", "standard_peak_bytes", "traffic_bytes", "standard_traffic_bytes",
            "paper_bytes", "least_bytes", "enqueue_us", "enqueue_min_us"}

    def assert_ceilings(self, row):
        """The limit is the lower roof of the row's own numbers, and the shares are of these."""
        copied = row["copy_gbps"] * 1e-3 * row["intensity"]
        self.assertAlmostEqual(row["limit_tflops"], min(row["peak_tflops"], copied), delta=1e-3 * row["limit_tflops"])
        self.assertEqual(row["limited_by"], "copy" if copied < row["peak_tflops"] else "peak")
        self.assertAlmostEqual(row["share_of_limit"], row["tflops"] / row["limit_tflops"], delta=1e-3 * row["share_of_limit"])
        flops = row["tflops"] * row["median_ms"] * 1e9
        self.assertAlmostEqual(row["intensity"], flops / row["least_bytes"], delta=1e-3 * row["intensity"])
        self.assertGreaterEqual(row["traffic_bytes"], row["least_bytes"])

    def test_rows(self):
        rows = json.loads(self.run_it("bench", "--n", "64,128", "--heads", "2", "--kv-heads", "1", "--causal", "both",
                                      "--repetitions", "3", "--json").stdout)
        self.assertEqual([(r["n_q"], r["causal"]) for r in rows],
                         [(64, False), (64, True), (128, False), (128, True)])
        for row in rows:
            self.assertLessEqual(self.KEYS, row.keys())
            self.assertGreater(row["median_ms"], 0.0)
            self.assertTrue(0.0 < row["enqueue_min_us"] <= row["enqueue_us"] < 1e6)
            self.assertTrue(row["min_ms"] <= row["q1_ms"] <= row["median_ms"] <= row["q3_ms"] <= row["max_ms"])
            self.assert_ceilings(row)
            self.assertEqual((row["grid"], row["peak_of"], row["problem"]), (None, "fp32 multiply-adds", None))
            size = 4 * 64 * (2 * 2 * row["n_q"] + 2 * row["n_kv"])
            self.assertEqual(row["peak_bytes"], size + row["extra_bytes"])
            self.assertEqual(row["least_bytes"], row["peak_bytes"])  # all of it once: there is no workspace
            flops = 4.0 * 2 * row["n_q"] * row["n_kv"] * 64 * (0.5 if row["causal"] else 1.0)
            self.assertAlmostEqual(row["tflops"], flops / row["median_ms"] * 1e-9, delta=1e-3 * row["tflops"])
            self.assertAlmostEqual(row["share_of_peak"], row["tflops"] / row["peak_tflops"],
                                   delta=1e-3 * row["share_of_peak"])
            self.assertEqual(row["share_problem"] is None, row["share_of_peak"] <= 1.0)
            self.assertEqual(row["extra_bytes"], 4 * 2 * row["n_q"])
            if row["standard_ms"] is None:
                self.assertTrue(row["standard_problem"])
            else:
                self.assertGreaterEqual(row["standard_bytes"], 4 * 2 * row["n_q"] * row["n_kv"])

    def test_passes(self):
        rows = json.loads(self.run_it("bench", "--n", "64", "--heads", "2", "--pass", "both", "--repetitions", "2", "--json").stdout)
        self.assertEqual([row["pass"] for row in rows], ["forward", "backward"])
        forward, backward = rows
        self.assertTrue(backward["path"].startswith("backward_"))
        self.assertGreater(backward["enqueue_us"], 0.0)
        self.assertAlmostEqual(backward["tflops"], 2.5 * 4.0 * 2 * 64 * 64 * 64 / backward["median_ms"] * 1e-9,
                               delta=1e-3 * backward["tflops"])
        self.assertEqual((forward["extra_bytes"], backward["extra_bytes"]), (4 * 2 * 64, 2 * 4 * 2 * 64))
        self.assertIn("forward pass", backward["standard_problem"])
        self.refused(USAGE, "bench", "--n", "64", "--pass", "both", "--skeleton", "forward_cpu", says=["--pass"])

    def test_modifications(self):
        row, = json.loads(self.run_it("bench", "--n", "96", "--heads", "2", "--repetitions", "1", "--feature",
                                      "softcap,alibi,bias,mask,key-lengths,varlen,sinks,dropout", "--window", "15,0", "--json").stdout)
        self.assertEqual(row["features"], ["window", "softcap", "alibi", "bias", "mask", "key lengths", "varlen", "sinks",
                                           "dropout"])
        self.assertEqual(row["window"], [15, 0])
        pairs = 96 * 16 - 15 * 16 // 2
        self.assertAlmostEqual(row["tflops"], 4.0 * 2 * pairs * 64 / row["median_ms"] * 1e-9, delta=1e-3 * row["tflops"])
        rows = json.loads(self.run_it("bench", "--n", "128", "--heads", "1", "--repetitions", "1", "--pass", "both",
                                      "--block-density", "0.25", "--block-size", "16,16", "--json").stdout)
        for row, factor in zip(rows, (1.0, 2.5)):
            self.assertEqual((row["block_density"], row["block_size"], row["features"]), (0.25, [16, 16], ["block mask"]))
            self.assertAlmostEqual(row["tflops"], factor * 4.0 * 128 * 128 * 0.25 * 64 / row["median_ms"] * 1e-9,
                                   delta=1e-3 * row["tflops"])
        self.assertIn("25 % of the blocks of 64 x 64",
                      self.run_it("bench", "--n", "64", "--block-density", "0.25", "--repetitions", "1").stdout)
        self.refused(USAGE, "bench", "--n", "64", "--block-size", "16,16", says=["--block-density"])
        self.refused(USAGE, "bench", "--n", "64", "--block-density", "0.5", "--block-size", "16,20", says=["'20'", "16"])
        self.refused(USAGE, "bench", "--n", "64", "--feature", "colour", says=["'colour'", "dropout"])
        self.refused(USAGE, "bench", "--n", "64", "--window", "5", says=["--window", "L,R"])

    def test_table_and_file(self):
        result = self.run_it("bench", "--n-q", "1", "--n-kv", "100", "--no-standard", "--dtype", "fp16,bf16", "--repetitions",
                             "1", "--json", self.path("rows.json"))
        self.assertIn("fp16", result.stdout)
        with open(self.path("rows.json")) as file:
            rows = json.load(file)
        self.assertEqual([row["dtype"] for row in rows], ["fp16", "bf16"])
        self.assertEqual([row["standard_ms"] for row in rows], [None, None])

    def test_grids(self):
        words = ["bench", "--repetitions", "1", "--no-standard", "--json"]
        rows = json.loads(self.run_it(*words, "--grid", "flash", "--n", "512", "--d", "64", "--causal", "on").stdout)
        self.assertEqual([(r["n_q"], r["d"], r["causal"], r["pass"]) for r in rows], [(512, 64, True, "forward")])
        rows = json.loads(self.run_it(*words, "--grid", "memory,decode", "--n", "128,256,1024").stdout)
        self.assertEqual([(r["grid"], r["batch"], r["heads"], r["kv_heads"], r["n_q"], r["n_kv"], r["d"]) for r in rows],
                         [("memory", 1, 1, 1, n, n, 64) for n in (128, 256, 1024)] +
                         [("decode", batch, 32, 8, 1, 1024, 128) for batch in (1, 16)])
        for row in rows[:3]:  # flash beyond its tensors: a float for each row; standard: one for each pair
            self.assertEqual(row["extra_bytes"], 4 * row["n_q"])
            self.assertGreaterEqual(row["standard_bytes"], 4 * row["n_q"] ** 2)
            self.assertEqual(row["standard_peak_bytes"], row["peak_bytes"] - row["extra_bytes"] + row["standard_bytes"])
            self.assertIn("not asked for", row["standard_problem"])
        for row in rows[3:]:
            self.assertEqual(row["limited_by"], "copy")
            self.assert_ceilings(row)

    def test_what_does_not_fit(self):
        words = ["bench", "--n-q", "1", "--n-kv", "1000000000", "--heads", "64", "--no-standard"]
        row, = json.loads(self.run_it(*words, "--json").stdout)
        self.assertIn("is more than", row["problem"])
        self.assertEqual((row["median_ms"], row["tflops"], row["share_of_limit"]), (None, None, None))
        self.assertEqual(row["peak_bytes"], 64 * 64 * 4 * 2 * (1000000000 + 1) + 4 * 64)
        self.assertIn("is more than", self.run_it(*words).stdout)

    def test_matrix_units_have_a_peak_of_their_own(self):
        row, = json.loads(self.run_it("bench", "--n", "64", "--heads", "1", "--dtype", "fp16", "--repetitions", "1", "--skeleton",
                                      "forward_matrix_emulated", "--no-standard", "--json").stdout)
        self.assertEqual(row["peak_of"], "emulated matrix units")
        self.assertGreater(row["peak_tflops"], 0.0)
        self.assert_ceilings(row)

    def test_interrupted(self):
        """What was measured is written, and the process ends by the signal."""
        words = ["bench", "--n", ",".join(["64"] * 16), "--no-standard", "--pass", "both", "--repetitions", "2"]
        process = subprocess.Popen([CLATTN, *words, "--json", self.path("rows.json")], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        while not process.stdout.readline().startswith(b"fp32"):
            pass
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGINT)
        with open(self.path("rows.json")) as file:
            self.assertIn(len(json.load(file)), range(1, 32))

    def test_kept_and_compared(self):
        words = ["bench", "--n", "64", "--heads", "1", "--no-standard", "--repetitions", "3"]
        result = self.run_it(*words, "--json", self.path("rows.json"), "--csv", self.path("rows.csv"))
        self.assertIn("limit", result.stdout)
        with open(self.path("rows.json")) as file:
            rows = json.load(file)
        with open(self.path("rows.csv")) as file:
            self.assertEqual(len(file.readlines()), 1 + len(rows))
        for name in ("median_ms", "q1_ms", "q3_ms", "min_ms", "max_ms"):
            rows[0][name] /= 1000.0
        with open(self.path("rows.json"), "w") as file:
            json.dump(rows, file)
        result = self.refused(3, *words, "--json", "--compare", self.path("rows.json"), says=["1 of 1 rows are slower", "SLOWER"])
        self.assertEqual(len(json.loads(result.stdout)), 1)
        with open(self.path("rows.json"), "w") as file:
            file.write("[{]")
        self.refused(FILE, *words, "--compare", self.path("rows.json"), says=["rows.json: line 1"])


class PeersTest(CommandTest):
    """What tests/peers/torch_sdpa.py does before it measures; the rest of it needs PyTorch, which the tests do without."""

    def run_script(self, *words):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers", "torch_sdpa.py")
        return subprocess.run([sys.executable, "-S", script, "--clattn", CLATTN, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)  # -S: without what else is installed

    def test_what_is_missing_is_named(self):
        result = self.run_script("--torch", "cpu")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("PyTorch is needed", result.stderr)

    def test_bad_values(self):
        for words, text in ((["--dtype", "fp32,fp8"], "'fp8'"), (["--backends", "fast"], "'fast'"), (["--n", "0"], "--n"),
                            (["--grid", "flash", "--heads", "2"], "--grid"), (["--rounds", "0"], "--rounds")):
            result = self.run_script(*words)
            self.assertEqual(result.returncode, USAGE, words)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    CLATTN = os.path.abspath(sys.argv[1])
    DUMPS = os.path.abspath(sys.argv[2])
    LAYER = os.path.abspath(sys.argv[3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
