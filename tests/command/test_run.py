#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn run` without modifications: types, masks, layouts, files that are wrong or cannot be written."""
import json
import math
import os
import random
import signal
import stat
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import (CLATTN, CommandTest, DEVICE, FILE, USAGE, attention, bf16_value, read_npy, run_tests, stored,
                     transpose, write_npy)


class Run(CommandTest):
    def check(self, kind, tolerance, shape=(2, 4, 2, 5, 9), d=8, d_v=6, causal="off", words=()):
        batch, heads, kv_heads, n_q, n_kv = shape
        q, k, v = self.inputs(kind, ((batch, heads, n_q, d), (batch, kv_heads, n_kv, d), (batch, kv_heads, n_kv, d_v)))
        rows = [word for name in ("lse", "m", "l") for word in ("--" + name, self.path(name + ".npy"))]
        self.run_it("run", *self.names(), *rows, *words)
        scale = next((float(w[8:]) for w in words if w.startswith("--scale=")), None)
        expected = attention(q, k, v, shape, d, d_v, causal, scale)
        got_kind, got_shape, o = read_npy(self.path("o.npy"))
        wide = "--o-type=fp32" in words
        self.assertEqual((got_kind, got_shape), ("<f4" if wide else kind, (batch, heads, n_q, d_v)))
        self.assert_close([bf16_value(b) for b in o] if got_kind == "<u2" else o, expected[0], tolerance)
        for name, numbers in zip(("lse", "m", "l"), expected[1:]):
            got_kind, got_shape, row = read_npy(self.path(name + ".npy"))
            self.assertEqual((got_kind, got_shape), ("<f4", (batch, heads, n_q)))
            self.assert_close(row, numbers, 1e-5)
        self.assertEqual(sorted(os.listdir(self.folder.name)),
                         sorted(name + ".npy" for name in ("q", "k", "v", "o", "lse", "m", "l")))

    def test_cache(self):
        batch, heads, kv_heads, d, d_v = 2, 4, 2, 8, 6
        cache, kept = self.path("keys.cache"), ([], [])  # of each head of each batch element the rows so far
        for kept_of in kept:
            kept_of.extend([] for _ in range(batch * kv_heads))
        for seed, n in enumerate((5, 1, 3)):
            q, *new = self.inputs("<f4", ((batch, heads, n, d), (batch, kv_heads, n, d), (batch, kv_heads, n, d_v)),
                                  seed=seed)
            for rows, values, width in zip(kept, new, (d, d_v)):
                for head, row in enumerate(rows):
                    row.extend(values[head * n * width:(head + 1) * n * width])
            summary = json.loads(self.run_it("run", *self.names(), "--lse", self.path("lse.npy"), "--causal", "--cache", cache,
                                             "--json").stdout)
            keys = len(kept[0][0]) // d
            self.assertEqual(summary["cache_keys"], keys)
            k, v = ([x for row in rows for x in row] for rows in kept)
            expected = attention(q, k, v, (batch, heads, kv_heads, n, keys), d, d_v, "bottom-right")
            self.assert_close(read_npy(self.path("o.npy"))[2], expected[0], 2e-6)
            self.assert_close(read_npy(self.path("lse.npy"))[2], expected[1], 1e-5)
        with open(cache, "rb") as file:
            before = file.read()
        step = ("run", *self.names(), "--cache", cache)
        self.refused(FILE, *step, "--lse", self.path("missing/lse.npy"), says=("missing/lse.npy",))
        self.refused(USAGE, *step, "--kv-chunk", "4", says=("--cache and --kv-chunk",))
        self.refused(USAGE, *step, "--memory", "4", says=("--cache and --memory",))
        self.refused(USAGE, *step, "--key-lengths", self.path("q.npy"), says=("--cache and --key-lengths",))
        self.inputs("<f4", ((batch, heads, 1, d + 1), (batch, kv_heads, 1, d + 1), (batch, kv_heads, 1, d_v)))
        self.refused(DEVICE, *step)  # a cache of another d
        self.inputs("<f4", ((batch, heads, 1, d), (batch, kv_heads, 2, d), (batch, kv_heads, 2, d_v)))
        self.refused(FILE, *step, says=("they are as many",))
        with open(cache, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_plan(self):
        """What `clattn plan` says of the same sizes: of few rows, heads that share keys make other plans."""
        paths = set()
        for batch, heads, kv_heads, n_q, n_kv in ((1, 16, 2, 4, 40), (2, 8, 1, 4, 40), (1, 2, 2, 4, 40), (1, 1, 1, 1, 4096)):
            self.inputs("<f4", ((batch, heads, n_q, 8), (batch, kv_heads, n_kv, 8), (batch, kv_heads, n_kv, 8)))
            ran = json.loads(self.run_it("run", *self.names(), "--json").stdout)
            plan = json.loads(self.run_it("plan", "--d", 8, "--n-q", n_q, "--n-kv", n_kv, "--heads", batch * heads, "--kv-heads",
                                          batch * kv_heads, "--json").stdout)[0]["plan"]
            self.assertEqual((ran["path"], ran["splits"]), (plan["skeleton"], plan["splits"]), (heads, kv_heads, n_q))
            paths.add(ran["path"])
        if self.on_cpu():
            self.assertEqual(paths, {"decode_cpu", "forward_cpu"})

    def test_devices(self):
        """One device as two: each with half, whatever passes."""
        shared = ("--devices", "0:0,0:0", "--shares", "1,1")
        for passing in ("kv", "q", "auto"):
            self.check("<f4", 2e-6, causal="bottom-right", words=("--causal", *shared, "--passing", passing))
        self.check("<f4", 2e-6, causal="bottom-right", words=("--causal", *shared[:2]))  # shares by measured speeds
        for word, value in (("--shares", "1,1"), ("--passing", "q")):
            self.refused(USAGE, "run", *self.names(), word, value, says=(f"{word} needs --devices P:D,...",))
        self.refused(USAGE, "run", *self.names(), *shared, "--passing", "rows", says=("must be one of auto, kv, q",))

    def test_pages(self):
        batch, heads, kv_heads, n_q, page, d, pool = 2, 4, 2, 3, 4, 8, 7
        table = [[3, 1, 6], [0, 5, 2]]
        q, _, _ = self.inputs("<f4", ((batch, heads, n_q, d),) * 3)
        pages = {}
        for name, kind in (("k", "<f2"), ("v", "<f4")):  # of types of their own
            source = random.Random(name)
            pages[name], data = stored(kind, [source.gauss(0, 1) for _ in range(pool * kv_heads * page * d)])
            write_npy(self.path(name + ".npy"), kind, (pool, kv_heads, page, d), data)
        k, v = ([x for row in table for h in range(kv_heads) for number in row
                 for x in pages[name][(number * kv_heads + h) * page * d:][:page * d]] for name in "kv")
        expected = attention(q, k, v, (batch, heads, kv_heads, n_q, 3 * page), d, d, "bottom-right")[0]
        numbers = [number for row in table for number in row]
        write_npy(self.path("dense.npy"), "<i4", (2, 3), numbers)
        write_npy(self.path("list.npy"), "<i8", (6,), numbers)
        write_npy(self.path("begins.npy"), "<i4", (3,), [0, 3, 6])
        for words in (["--kv-pages", self.path("dense.npy")],
                      ["--kv-pages", self.path("list.npy"), "--kv-page-indptr", self.path("begins.npy")]):
            self.run_it("run", *self.names(), *words, "--causal")
            self.assert_close(read_npy(self.path("o.npy"))[2], expected, 2e-6)
        write_npy(self.path("dense.npy"), "<i4", (2, 3), [3, 1, 6, 0, 7, 2])
        self.assertIn("--kv-pages has 7 as page 1 of batch element 1", self.run_it(
            "run", *self.names(), "--kv-pages", self.path("dense.npy"), status=DEVICE).stderr)
        write_npy(self.path("k.npy"), "<f2", (kv_heads, page, d), [0] * (kv_heads * page * d))
        self.assertIn("with --kv-pages it is [pages, heads, keys of a page, d]", self.run_it(
            "run", *self.names(), "--kv-pages", self.path("dense.npy"), status=FILE).stderr)

    def test_batch(self):
        q, k, v = self.inputs("<f4", ((1, 2, 5, 8), (1, 2, 9, 8), (1, 2, 9, 8)))
        common = [word for name in "qkv" for word in ("--" + name, self.path(name + ".npy"))]
        outputs = [self.path(name) for name in ("first.npy", "second o.npy")]
        with open(self.path("batch"), "w", encoding="utf-8") as file:
            file.write("--out %s\n--out '%s' --causal  # the other\n" % tuple(outputs))
        self.run_it("run", *common, "--batch", self.path("batch"))
        for output, causal in zip(outputs, ("off", "bottom-right")):
            expected = attention(q, k, v, (1, 2, 2, 5, 9), 8, 8, causal)[0]
            self.assert_close(read_npy(output)[2], expected, 2e-6)
        os.unlink(outputs[1])
        with open(self.path("batch"), "w", encoding="utf-8") as file:
            file.write("--out x --v none\n--batch other\n--out x --device 99:0\n--out '%s'\n" % outputs[1])
        told = self.run_it("run", *common, "--batch", self.path("batch"), status=FILE).stderr
        for text in ("line 1: none: No such file", "line 2: --batch other: a line", "line 3: --device 99:0"):
            self.assertIn(text, told)
        self.assertTrue(os.path.exists(outputs[1]))  # those that can run have run

    def test_standard_output(self):
        self.inputs("<f4", ((1, 2, 5, 8),) * 3)
        names = self.names()
        self.run_it("run", *names)
        names[names.index("--out") + 1] = "-"
        result = subprocess.run([CLATTN, "run", *names, "--quiet"], stdout=subprocess.PIPE, check=True, timeout=60)
        with open(self.path("o.npy"), "rb") as file:
            self.assertEqual(result.stdout, file.read())
        self.refused(USAGE, "run", *names, "--json", says=["--json and --out -"])
        self.refused(USAGE, "run", *names, "--lse", "-", says=["two outputs"])

    def test_formats(self):
        heads, kv_heads, n_q, n, d, groups = 4, 2, 3, 9, 32, 2
        q, _, _ = self.inputs("<f4", ((heads, n_q, d),) * 3)
        source = random.Random("formats")
        keys = [source.randrange(-128, 128) for _ in range(kv_heads * n * d)]
        scales = stored("<f4", [source.uniform(0.005, 0.02) for _ in range(kv_heads * n * groups)])[0]
        zeros = [float(source.randrange(-5, 6)) for _ in scales]
        blocks = [source.randrange(256) for _ in range(kv_heads * n * 18)]
        v = []
        for row in range(0, len(blocks), 18):
            blocks[row:row + 2] = [0, 0x2c]  # 1/16 as a half
            v += [(byte & 15) / 16 - 0.5 for byte in blocks[row + 2:row + 18]]
            v += [(byte >> 4) / 16 - 0.5 for byte in blocks[row + 2:row + 18]]
        group = d // groups
        k = [(key - zeros[i // group]) * scales[i // group] for i, key in enumerate(keys)]
        write_npy(self.path("k.npy"), "|i1", (kv_heads, n, d), keys)
        write_npy(self.path("v.npy"), "|u1", (kv_heads, n, 18), blocks)
        write_npy(self.path("scales.npy"), "<f4", (kv_heads, n, groups), scales)
        write_npy(self.path("zeros.npy"), "<f4", (kv_heads, n, groups), zeros)
        words = ["--k-format", "int8", "--k-scales", self.path("scales.npy"), "--v-format", "q4_0"]
        self.run_it("run", *self.names(), *words, "--k-zeros", self.path("zeros.npy"), "--causal")
        self.assert_close(read_npy(self.path("o.npy"))[2],
                          attention(q, k, v, (1, heads, kv_heads, n_q, n), d, d, "bottom-right")[0], 2e-6)
        self.assertIn("what --k-format and --v-format say", self.run_it("run", *self.names(), status=FILE).stderr)
        self.refused_run(USAGE, *self.names(), "--k-format=int8", "--v-format=q4_0",
                         says=["--k-format int8 needs --k-scales FILE"])
        self.refused_run(USAGE, *self.names(), *words, "--v-scales", self.path("scales.npy"),
                         says=["--v-scales needs --v-format int8"])
        self.assertIn("needs '|u1'", self.run_it(
            "run", *self.names(), "--k-format=q8_0", "--v-format=q4_0", status=FILE).stderr)
        self.assertIn("blocks of 34", self.run_it(
            "run", *self.names(), *words[:-1], "q8_0", status=FILE).stderr)
        write_npy(self.path("scales.npy"), "<f4", (kv_heads, n, 5), [0.0] * kv_heads * n * 5)
        self.assertIn("groups divide 32", self.run_it("run", *self.names(), *words, status=FILE).stderr)
        self.refused_run(USAGE, *self.names(), "--k-zeros", self.path("zeros.npy"), says=["--k-zeros", "--k-scales"])

    def test_types(self):
        self.check("<f4", 2e-6)
        self.check("<f2", 2e-3, words=["--dtype", "fp16"])
        self.check("<u2", 2e-2, words=["--dtype", "bf16"])
        self.check("<u2", 2e-6, words=["--dtype", "bf16", "--o-type=fp32", "--skeleton=forward_simt"])

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

    def test_each_output_has_a_file_of_its_own(self):
        """In whatever spelling: by another path, a link or a hard link, whether the file is there or not."""
        self.inputs("<f4", ((5, 8), (5, 8), (5, 8)))
        os.mkdir(self.path("folder"))
        os.symlink(self.path("q.npy"), self.path("link.npy"))
        os.link(self.path("k.npy"), self.path("hard.npy"))
        with open(self.path("old.npy"), "w"), open(self.path("older.npy"), "w"):
            os.symlink("old.npy", self.path("old-link.npy"))
            os.link(self.path("old.npy"), self.path("old-hard.npy"))
        words = self.names()[:-1]
        for out, says in (("q.npy", "--q"), ("folder/../v.npy", "--v"), ("link.npy", "--q"), ("hard.npy", "--k")):
            self.refused_run(USAGE, *words, self.path(out), says=["--out", says + ")", "input"])
        for out, lse in (("new.npy", "./new.npy"), ("new.npy", "folder/../new.npy"), ("old.npy", "old-link.npy"),
                         ("old.npy", "old-hard.npy"), ("old-link.npy", "old-hard.npy")):
            self.refused_run(USAGE, *words, self.path(out), "--lse", self.path(lse), says=["--out", "--lse", "two outputs"])
        self.run_it("run", *words, self.path("old.npy"), "--lse", self.path("older.npy"), "--m", "/dev/null", "--l", "/dev/null")

    def started(self):
        """A run that has its temporary file, and some seconds of work before it."""
        self.inputs("<f4", ((4000, 64), (4000, 64), (4000, 64)))
        uncached = {**os.environ, "CLATTN_CACHE_DIR": "", "POCL_CACHE_DIR": self.path("pocl")}
        command = subprocess.Popen([CLATTN, "run", *self.names()], env=uncached, stderr=subprocess.PIPE)
        self.addCleanup(command.stderr.close)
        while command.poll() is None and not self.pieces():
            time.sleep(0.01)
        self.assertIsNone(command.poll())
        return command

    def pieces(self):
        return [name for name in os.listdir(self.folder.name) if name.endswith(".part")]

    def test_signals_leave_no_pieces(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            command = self.started()
            command.send_signal(number)
            self.assertEqual(command.wait(), -number)
            self.assertEqual(self.pieces(), [])
            self.assertFalse(os.path.exists(self.path("o.npy")))

    def test_pieces_of_a_killed_run_are_cleared(self):
        command = self.started()
        piece, = self.pieces()
        self.inputs("<f4", ((5, 8), (5, 8), (5, 8)), seed=2)
        self.run_it("run", *self.names())  # beside the other, whose piece stays
        self.assertEqual(self.pieces(), [piece])
        command.kill()
        command.wait()
        self.assertEqual(self.pieces(), [piece])
        self.run_it("run", *self.names())
        self.assertEqual(self.pieces(), [])

    def test_an_input_that_shrinks_is_an_error(self):
        """Pages that are gone would be SIGBUS; the end of the last one that is left would be zeros."""
        for bytes in (128, 400000):
            command = self.started()
            os.truncate(self.path("v.npy"), bytes)
            _, says = command.communicate()
            self.assertEqual(command.returncode, FILE)
            self.assertIn("v.npy: was shrunk", says.decode())
            self.assertEqual(self.pieces(), [])
            self.assertFalse(os.path.exists(self.path("o.npy")))

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


if __name__ == "__main__":
    run_tests()
