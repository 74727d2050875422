#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `clattn bench --from` makes of kept rows: tables, comparisons and pictures. Needs no device.

    test_bench_rows.py CLATTN
"""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True  # the source tree stays as it is
from terminal import on_terminal

CLATTN = ""
OK, USAGE, FILE, SLOWER, NOTHING_SHARED = 0, 2, 3, 5, 6


def row(n, ms, spread=0.01, **changes):
    """One of a device's, as --json writes it, as far as it is looked at."""
    flops = 4.0 * 8 * n * n * 64
    made = {"device": "Some 'device', v1", "driver": "1.0", "path": "forward_cpu", "grid": "flash", "pass": "forward",
            "dtype": "fp32", "batch": 1, "heads": 8, "kv_heads": 8, "n_q": n, "n_kv": n, "d": 64, "d_v": 64,
            "causal": False, "median_ms": ms, "min_ms": ms * (1 - 2 * spread), "max_ms": ms * (1 + 2 * spread),
            "q1_ms": ms * (1 - spread), "q3_ms": ms * (1 + spread), "tflops": flops / ms * 1e-9,
            "peak_of": "fp32 multiply-adds", "peak_tflops": 0.5, "copy_gbps": 20.0, "intensity": n / 4.0,
            "standard_ms": 20.0 * ms, "least_bytes": 8.0 * n * 64 * 16, "standard_traffic_bytes": 8.0 * n * n * 16,
            "peak_bytes": 8 * n * 64 * 16, "standard_peak_bytes": 8 * n * 64 * 16 + 32 * n * n, "features": [],
            "window": None}
    made.update(changes)
    return made


class KeptRows(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def keep(self, name, rows):
        with open(self.path(name), "w") as file:
            file.write(rows if isinstance(rows, str) else json.dumps(rows))
        return self.path(name)

    def bench(self, *words, status=OK, says=(), environment=None):
        result = subprocess.run([CLATTN, "bench", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **(environment or {})}, timeout=60)
        result.stdout, result.stderr = result.stdout.decode(), result.stderr.decode()
        self.assertEqual(result.returncode, status, result.stderr)
        for text in says:
            self.assertIn(text, result.stderr)
        return result

    def test_outputs_are_tried_first(self):
        for words in (["--json=" + self.path("no/rows.json")], ["--csv=" + self.path("no/rows.csv")],
                      ["--plot", self.path("no/rows.svg")], ["--json=" + self.folder.name]):
            if words[0] != "--plot" or shutil.which("gnuplot"):
                self.bench("--n", "1048576", *words, status=FILE, says=["cannot be written"])

    def compare(self, new, old, status=OK, says=()):
        result = self.bench("--from", self.keep("new.json", new), "--compare", self.keep("old.json", old), status=status,
                            says=says)
        self.assertNotIn("\033", result.stdout)  # no terminal, no colour
        return [line.split()[-1] for line in result.stdout.splitlines() if line.startswith("fp32")]

    def test_comparison(self):
        old = [row(512, 1.0), row(1024, 4.0), row(2048, 16.0)]
        self.assertEqual(self.compare(old, old), ["same"] * 3)
        new = [row(512, 1.5), row(1024, 4.05), row(2048, 8.0)]
        self.assertEqual(self.compare(new, old, status=SLOWER, says=["1 of 3 rows are slower", "old.json"]),
                         ["SLOWER", "same", "faster"])
        self.assertEqual(self.compare(old, new, status=SLOWER), ["faster", "same", "SLOWER"])

    def test_noise_is_judged_by_the_spreads(self):
        quiet, noisy = [row(512, 1.2)], [row(512, 1.2, spread=0.17)]
        self.assertEqual(self.compare(quiet, [row(512, 1.0)], status=SLOWER), ["SLOWER"])
        self.assertEqual(self.compare(noisy, [row(512, 1.0)]), ["same"])
        self.assertEqual(self.compare(quiet, [row(512, 1.0, spread=0.25)]), ["same"])
        self.assertEqual(self.compare([row(512, 1.02, spread=0.0)], [row(512, 1.0, spread=0.0)]), ["same"])  # 3 %
        without = [{key: value for key, value in row(512, 1.0, spread=0.06).items() if key not in ("q1_ms", "q3_ms")}]
        self.assertEqual(self.compare([row(512, 1.1, spread=0.0)], without), ["same"])  # by the extremes
        self.assertEqual(self.compare([row(512, 1.13, spread=0.0)], without, status=SLOWER), ["SLOWER"])

    def test_colours_are_for_terminals(self):
        new, old = self.keep("new.json", [row(512, 2.0)]), self.keep("old.json", [row(512, 1.0)])
        words = [CLATTN, "bench", "--from", new, "--compare", old]
        self.assertIn("\033[31mSLOWER\033[0m", on_terminal(words, "stdout", {})[1])
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            status, text = on_terminal(words, "stdout", environment)
            self.assertEqual(status, SLOWER)
            self.assertIn("SLOWER", text)
            self.assertNotIn("\033", text)

    def test_comparisons_fit(self):
        kept = [self.keep(name, [row(n, 1.0)]) for name, n in (("a.json", 16384), ("b.json", 512))]
        for old in kept:
            for columns in (60, 80):
                words = [CLATTN, "bench", "--from", kept[0], "--compare", old]
                lines = on_terminal(words, "stdout", {"COLUMNS": str(columns)})[1].splitlines()
                self.assertIn("16384", lines[3])
                self.assertLessEqual(max(len(re.sub("\033[^m]*m", "", line)) for line in lines if "/" not in line), columns)

    def test_rows_are_matched_by_what_they_measure(self):
        old = [row(512, 1.0), row(512, 1.0, causal=True), row(512, 9.0, dtype="fp16")]
        new = [row(512, 1.0, causal=True, path="forward_simt"), row(512, 1.0), row(256, 1.0)]
        self.assertEqual(self.compare(new, old), ["same", "same", "here"])
        self.compare([row(512, 1.0, device="Another")], old, status=NOTHING_SHARED, says=["Some 'device'", "Another"])
        self.assertEqual(self.compare([row(512, 1.0, median_ms=None)], old), ["timed"])

    def test_wrong_files(self):
        good = self.keep("good.json", [row(512, 1.0)])
        self.bench("--from", self.path("absent.json"), "--csv", status=FILE, says=["absent.json"])
        self.bench("--from", self.keep("cut.json", '[\n{"device": "x",\n'), "--csv", status=FILE, says=["cut.json: line 3"])
        for wrong in ("{}", "[]", "3", "[3]"):
            self.bench("--from", self.keep("wrong.json", wrong), "--csv", status=FILE, says=["wrong.json"])
        self.bench("--from", self.keep("wrong.json", [dict(row(1, 1.0), n_kv="1")]), "--csv", status=FILE, says=['"n_kv"'])
        self.bench("--from", good, "--compare", self.path("absent.json"), status=FILE, says=["absent.json"])
        self.bench("--from", good, status=USAGE, says=["--from", "--plot"])
        self.bench("--from", good, "--csv", "--n", "64", status=USAGE, says=["--from"])
        self.bench("--from", good, "--csv", "--json", status=USAGE, says=["--json and --csv"])
        self.bench("--from", good, "--csv", "--keep-plot-script", status=USAGE, says=["--plot"])

    def test_csv(self):
        rows = [row(512, 1.0, features=["window", "alibi"], window=[5, -1]), row(1024, 4.0)]
        text = self.bench("--from", self.keep("rows.json", rows), "--csv").stdout
        read = list(csv.DictReader(io.StringIO(text, newline="")))
        self.assertEqual([list(r) for r in read], [list(rows[0])] * 2)
        self.assertEqual([read[0][name] for name in ("device", "features", "window")],
                         ["Some 'device', v1", "window alibi", "5 -1"])
        self.assertEqual((read[1]["n_kv"], read[1]["causal"], read[1]["window"]), ("1024", "false", ""))
        self.assertAlmostEqual(float(read[1]["tflops"]), rows[1]["tflops"], delta=1e-5)
        self.bench("--from", self.path("rows.json"), "--csv", self.path("rows.csv"))
        with open(self.path("rows.csv"), newline="") as file:
            self.assertEqual(file.read(), text)

    def all_rows(self):
        rows = [row(n, n * n * 1e-6, **{"causal": causal, "d": d}) for d in (64, 128) for causal in (False, True)
                for n in (512, 1024, 2048)]
        rows += [row(n, n * n * 1e-6, grid="memory", heads=1) for n in (128, 256)]
        return rows + [row(4096, 1.0, grid="decode", n_q=1, dtype="fp16", peak_of="matrix units", peak_tflops=2.0)]

    def test_no_gnuplot(self):
        nothing = {"PATH": self.folder.name}
        self.bench("--from", self.keep("rows.json", self.all_rows()), "--plot", self.path("x.svg"), status=FILE,
                   says=["gnuplot", "install"], environment=nothing)
        self.bench("--n", "64", "--plot", self.path("x.svg"), status=FILE, says=["gnuplot"], environment=nothing)
        self.bench("--from", self.path("rows.json"), "--plot", self.path("x.gif"), status=USAGE, says=["x.gif", ".svg"])
        self.assertEqual(os.listdir(self.folder.name), ["rows.json"])

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_pictures(self):
        rows = self.keep("rows.json", self.all_rows())
        result = self.bench("--from", rows, "--plot", self.path("x.svg"), "--keep-plot-script")
        names = ["x-memory", "x-roofline", "x-speed"]
        self.assertEqual(sorted(os.listdir(self.folder.name)),
                         sorted(["rows.json"] + [name + kind for name in names for kind in (".svg", ".gp")]))
        self.assertIn("x-speed.svg", result.stderr)
        for name in names:
            root = xml.parse(self.path(name + ".svg")).getroot()
            text = " ".join(" ".join(root.itertext()).split())
            self.assertIn("Some 'device', v1", text)
            self.assertIn("clattn fp32", text)
            self.assertIn("standard fp32", text)
            self.assertGreater(len(root.findall(".//{http://www.w3.org/2000/svg}path")), 5)
            with open(self.path(name + ".gp"), "rb") as script, open(self.path(name + ".svg"), "rb") as picture:
                again = subprocess.run(["gnuplot", "--default-settings", "-"], stdin=script, stdout=subprocess.PIPE, timeout=60)
                self.assertEqual(again.stdout, picture.read())
        with open(self.path("x-speed.gp")) as script:
            text = script.read()
        self.assertEqual(len(re.findall(r"\n\S+ 2\.048 2\.0277\d* 2\.0686\d* # n 2048\n", text)), 4)  # and its quartiles
        self.assertEqual(len(re.findall(r"\n\S+ 0\.1024 \S+ \S+ # n 2048\n", text)), 4)
        self.assertEqual(text.count("set title 'forward, d "), 4)
        self.assertEqual(len(re.findall(r"set yrange \[0:2\.\d+\]", text)), 1)  # one scale for all panels
        self.assertNotIn("with labels", text)  # nothing is missing
        with open(self.path("x-memory.gp")) as script:
            self.assertIn("\n256 %.6g\n" % (8 * 256 * 64 * 16), script.read())
        with open(self.path("x-roofline.gp")) as script:
            text = script.read()
        self.assertIn("matrix units, 2 TFLOP/s", text)
        self.assertIn("fp32 multiply-adds, 0.5 TFLOP/s", text)
        self.assertIn("copy, 20 GB/s", text)

    def script_of(self, rows, name):
        self.bench("--from", self.keep("rows.json", rows), "--plot", self.path("x.svg"), "--keep-plot-script", "--quiet")
        with open(self.path("x-%s.gp" % name)) as script:
            return script.read()

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_peers_stand_beside(self):
        peers = {"cuDNN": {"median_ms": 2.0, "min_ms": 1.0, "max_ms": 4.0}, "FlashAttention-4": {"median_ms": 0.5}}
        text = self.script_of([row(512, 1.0, tflops=600.0, peers=peers, dtype="fp16")], "speed")
        self.assertIn("title 'cuDNN fp16'", text)
        self.assertIn("title 'FlashAttention-4 fp16'", text)
        self.assertRegex(text, r"\n\S+ 300 150 600 # n 512\n")
        self.assertRegex(text, r"\n\S+ 1200 1200 1200 # n 512\n")
        self.assertIn("TFLOP/s", text)
        colours = re.findall(r"fillcolor rgb '(\S+)' title", text)
        self.assertEqual((len(colours), len(set(colours))), (4, 4))  # clattn, two peers, standard

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_texts_of_files_are_no_commands(self):
        evil = "A'\nsystem('touch %s')\n'" % self.path("made")
        rows = [row(512, 1.0, device=evil, driver=evil, peers={evil: {"median_ms": 2.0}}), row(1024, 4.0, device=evil)]
        text = self.script_of(rows, "speed")
        self.assertNotIn("made", os.listdir(self.folder.name))
        self.assertNotIn("\nsystem", text)
        self.assertIn("system(", text)

    def test_peers_as_csv(self):
        peers = {"cu,DNN": {"median_ms": 2.0}}
        result = self.bench("--from", self.keep("rows.json", [row(512, 1.0, peers=peers)]), "--csv")
        (found,) = csv.DictReader(io.StringIO(result.stdout))
        self.assertEqual(json.loads(found["peers"]), peers)
        self.assertEqual(found["window"], "")

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_units_fit(self):
        text = self.script_of([row(512, 10.0)], "speed")
        self.assertIn("GFLOP/s", text)
        self.assertNotIn("TFLOP/s", text)
        self.assertIn("fp32 multiply-adds, 500 GFLOP/s", self.script_of([row(512, 10.0)], "roofline"))

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_what_is_missing_is_marked(self):
        failed = {"standard_ms": None, "standard_peak_bytes": None, "standard_problem": "too large"}
        rows = [row(512, 1.0), row(1024, 4.0, **failed), row(1024, 4.0, causal=True)]
        text = self.script_of(rows, "speed")
        self.assertRegex(text, r"\$p0m1 << EOD\n\S+ 0 # n 1024\nEOD\n")  # standard attention, full
        self.assertRegex(text, r"\$p1m0 << EOD\n0.0000 0 # n 512\nEOD\n")  # nothing, causal
        backward = [row(512, 1.0), row(512, 4.0, **{**failed, "pass": "backward"})]
        self.assertRegex(self.script_of(backward, "speed"), r"\$p1m1 << EOD\n\S+ 0 # n 512\nEOD\n")  # it has none
        self.assertIn("x: not measured, or did not run", text)
        self.assertNotIn("are not shown", text)
        self.assertIn("1 rows of other shapes", self.script_of(rows + [row(512, 2.0, batch=2)], "speed"))
        memory = [row(n, 1.0, grid="memory", **(failed if n == 256 else {})) for n in (128, 256)]
        self.assertIn("set label 'x' at first 256,", self.script_of(memory, "memory"))

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_what_was_disturbed_is_marked(self):
        peers = {"cuDNN": {"median_ms": 2.0, "disturbed": True}}
        rows = [row(512, 1.0, disturbed=True, standard_disturbed=False), row(1024, 4.0, disturbed=False, standard_disturbed=True),
                row(2048, 16.0, peers=peers), row(4096, 64.0, disturbed=None)]
        text = self.script_of(rows, "speed")
        found = re.findall(r"\$p0d(\d) << EOD\n\S+ \S+ # n (\d+)\nEOD\n", text)
        self.assertEqual(found, [("0", "512"), ("1", "2048"), ("2", "1024")])  # clattn, cuDNN, standard attention
        self.assertEqual(text.count("using 1:2:('!') with labels"), 3)
        self.assertIn("!: disturbed by other work", text)
        self.assertEqual(self.script_of(rows, "roofline").count("set label '!' at"), 2)
        calm = self.script_of([row(512, 1.0, disturbed=False)], "speed")
        self.assertNotIn("disturbed", calm + self.script_of([row(512, 1.0, disturbed=False)], "roofline"))

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_pictures_of_other_kinds(self):
        self.bench("--from", self.keep("pdf.json", self.all_rows()), "--plot", self.path("y.pdf"), "--quiet")
        for name in ("pdf.json", "y-speed.pdf", "y-memory.pdf", "y-roofline.pdf"):
            with open(self.path(name), "rb") as file:
                self.assertIn(file.read(4), (b"%PDF", b'[{"d'), name)
            os.remove(self.path(name))
        decode = [r for r in self.all_rows() if r["grid"] == "decode"]
        self.bench("--from", self.keep("rows.json", decode), "--plot", self.path("x.png"), "--quiet")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["rows.json", "x-roofline.png"])
        with open(self.path("x-roofline.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        bare = [{key: r[key] for key in ("device", "pass", "dtype", "path", "batch", "heads", "n_q", "n_kv", "d", "causal")}
                for r in decode]
        self.bench("--from", self.keep("rows.json", bare), "--plot", self.path("y.svg"), status=FILE, says=["no row"])
        self.bench("--from", self.keep("rows.json", decode), "--plot", self.path("missing/x.svg"), status=FILE,
                   says=["missing/x-speed.svg"])


if __name__ == "__main__":
    CLATTN = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
