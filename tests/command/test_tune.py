#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""clattn tune on whatever OpenCL device the environment gives: what it writes is what plans then say, within its budget,
whatever befalls it.

    test_tune.py CLATTN FOLDER_OF_CLINFO_DUMPS FAULT_LAYER.so
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
from dumps import write_elsewhere

CLATTN = ""
DUMPS = ""
LAYER = ""
OK, MISMATCH, USAGE, FILE, DEVICE = range(5)
SMALL = ["--d", "16", "--n", "64", "--heads", "2", "--causal=off"]


class Tune(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.db = self.path("tuning.json")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *words, environment=None):
        return subprocess.Popen([CLATTN, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "CLATTN_TUNING_FILE": self.db, **(environment or {})})

    def run_it(self, *words, status=OK, environment=None):
        process = self.start(*words, environment=environment)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, status, "clattn %s: %s%s" % (" ".join(map(str, words)), out, err))
        return out, err

    def enough(self, seconds, attempt):
        """A loaded machine needs longer for the same: what `attempt` does within so many seconds, it may do within more."""
        for factor in (1, 5, 15):
            if attempt(seconds * factor):
                return
        self.fail("nothing was measured within %d seconds" % (15 * seconds))

    def records(self, path=None):
        with open(path or self.db, encoding="utf-8") as file:
            root = json.load(file)
        self.assertEqual((root["format"], root["version"]), ("clattn tuning", 1))
        return root["records"]

    def test_plans_say_what_was_measured(self):
        row, tried = {}, []

        def tune(budget):
            nonlocal row, tried
            start = time.monotonic()
            rows = json.loads(self.run_it("tune", *SMALL, "--budget", budget, "--json")[0])
            self.assertLessEqual(time.monotonic() - start, budget * 1.1)
            if not rows:
                return False
            row, = rows
            tried = [candidate for candidate in row["candidates"] if candidate["state"]]
            return len(tried) >= 2

        self.enough(12, tune)
        records = self.records()
        self.assertGreaterEqual(len(records), len(tried))
        best, = [record for record in records if record["best"]]
        chosen = row["candidates"][row["best"]]
        self.assertEqual({name: best[name] for name in ("skeleton", "b_r", "b_c", "knobs")},
                         {name: chosen[name] for name in ("skeleton", "b_r", "b_c", "knobs")})
        self.assertLessEqual(row["tuned_ms"], row["untuned_ms"])
        plan, = json.loads(self.run_it("plan", "--d", 16, "--n", 64, "--json")[0])
        self.assertEqual(plan["plan"]["chosen_by"], "the tuning file")
        self.assertEqual((plan["plan"]["b_r"], plan["plan"]["b_c"], plan["plan"]["knobs"]),
                         (best["b_r"], best["b_c"], best["knobs"]))
        plan, = json.loads(self.run_it("plan", "--d", 16, "--n", 64, "--json", environment={"CLATTN_TUNING_FILE": ""})[0])
        self.assertNotEqual(plan["plan"]["chosen_by"], "the tuning file")
        # What is measured before is not measured again.
        again, = json.loads(self.run_it("tune", *SMALL, "--budget", 6, "--json", "--resume")[0])
        name = lambda c: tuple(c[key] for key in ("skeleton", "b_r", "b_c", "work_group_size", "knobs"))
        states = {name(c): c["state"] for c in again["candidates"]}
        for c in tried:
            self.assertEqual(states[name(c)], c["state"])
        self.assertGreaterEqual(len(self.records()), len(records))

    def test_an_interrupt_keeps_what_was_found(self):
        def interrupt(seconds):
            process = self.start("tune", *SMALL, "--budget", "900")
            time.sleep(seconds)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
            self.assertLess(time.monotonic() - start, 10)
            self.assertEqual(process.returncode, -signal.SIGINT)
            return os.path.exists(self.db) and [record for record in self.records() if record["best"]]

        self.enough(4, interrupt)
        self.assertEqual(len([record for record in self.records() if record["best"]]), 1)

    def test_two_tuners_lose_nothing(self):
        def both(budget):
            for process in [self.start("tune", *SMALL[2:], "--d", d, "--budget", budget) for d in (16, 24)]:
                out, err = process.communicate(timeout=300)
                self.assertEqual(process.returncode, OK, out + err)
            return {record["d"] for record in self.records() if record["best"]} == {16, 24}

        self.enough(6, both)

    def test_programs_are_compiled_ahead(self):
        cache, tried = self.path("cache"), []

        def tune(budget):
            nonlocal tried
            rows = json.loads(self.run_it("tune", *SMALL, "--budget", budget, "--builders", 2, "--json",
                                          environment={"CLATTN_CACHE_DIR": cache})[0])
            tried = [candidate for row in rows for candidate in row["candidates"] if candidate["state"]]
            return tried

        self.enough(8, tune)
        self.assertEqual({candidate["state"] for candidate in tried}, {"ok"})
        self.assertGreater(len(os.listdir(cache)), len(tried))  # with what was not reached
        _, err = self.run_it("tune", *SMALL, "--budget", 1, "--builders", 2, environment={"CLATTN_CACHE_DIR": ""})
        self.assertIn("nothing is compiled ahead", err)

    def test_wrong_numbers_are_not_timed(self):
        """Every process's first read from the device lies, which is the first of the verification."""
        lie = {"OPENCL_LAYERS": LAYER, "CLATTN_FAULT_CORRUPT_READ": "1"}
        row = {}

        def tune(budget):
            nonlocal row
            process = self.start("tune", *SMALL, "--budget", budget, "--json", environment=lie)
            out, err = process.communicate(timeout=300)
            rows = json.loads(out)
            row = rows[0] if rows else {}
            tried = bool(rows) and row["candidates"][0]["state"] is not None
            self.assertEqual(process.returncode, MISMATCH if tried else OK, err)
            return tried

        self.enough(4, tune)
        self.assertEqual(row["candidates"][0]["state"], "wrong")
        self.assertIn("changed", row["candidates"][0]["reason"])
        self.assertEqual(self.records()[0]["state"], "wrong")

    def test_a_damaged_file_is_found_first(self):
        text = '{"format": "clattn tuning", "version": 1, "records": [\n {"device": 1}\n]}\n'
        with open(self.db, "w", encoding="utf-8") as file:
            file.write(text)
        start = time.monotonic()
        _, err = self.run_it("tune", *SMALL, "--budget", 100, status=FILE)
        self.assertLess(time.monotonic() - start, 50)
        self.assertIn("tuning.json:2: ", err)
        with open(self.db, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)
        _, err = self.run_it("plan", "--d", 16)  # says so, and plans without it
        self.assertIn("warning: the tuning file is left out", err)

    def test_a_file_that_cannot_be_written_is_found_first(self):
        start = time.monotonic()
        _, err = self.run_it("tune", *SMALL, "--budget", 100, "--db", "/proc/nowhere/t.json", status=FILE)
        self.assertIn("/proc/nowhere/t.json", err)
        self.run_it("tune", *SMALL, status=DEVICE, environment={"CLATTN_TUNING_FILE": ""})
        self.assertLess(time.monotonic() - start, 50)

    def record(self, b_r, device="P / D", best=False):
        return {"device": device, "driver": "1", "kernels": "*", "pass": "forward", "dtype": "fp32", "d": 64, "d_v": 64,
                "causal": False, "n_q_up_to": 0, "n_kv_up_to": 0, "skeleton": "forward_cpu", "b_r": b_r, "b_c": 64,
                "work_group_size": 1, "knobs": "", "state": "ok", "ms": 1.5, "runs": 3, "best": best}

    def test_merge(self):
        for name, records in (("a", [self.record(32, best=True), self.record(64)]),
                              ("b", [self.record(64, best=True), self.record(32, device="P / E")])):
            with open(self.path(name), "w", encoding="utf-8") as file:
                json.dump({"format": "clattn tuning", "version": 1, "records": records}, file)
        out, _ = self.run_it("tune", "--merge", self.path("a"), self.path("b"))
        self.run_it("tune", "--merge", self.path("a"), self.path("b"), "--db", self.path("c"))
        with open(self.path("c"), encoding="utf-8") as file:
            self.assertEqual(file.read(), out)
        merged = [(record["device"], record["b_r"], record["best"]) for record in self.records(self.path("c"))]
        self.assertEqual(merged, [("P / D", 32, False), ("P / D", 64, True), ("P / E", 32, False)])
        best = self.run_it("tune", "--merge", self.path("a"), self.path("b"), "--best")[0]
        self.assertEqual([(record["b_r"], record["best"]) for record in json.loads(best)["records"]], [(64, True)])
        _, err = self.run_it("tune", "--merge", self.path("a"), self.path("none"), status=FILE)
        self.assertIn("No such file", err)
        self.run_it("tune", "--merge", self.path("a"), "--resume", status=USAGE)

    def test_devices_that_are_not_here_are_ranked(self):
        dump = write_elsewhere(os.path.join(DUMPS, "nvidia-h200.json"), self.path("dump.json"))
        wanted = ["--dtype", "fp16", "--d", "128", "--n", "4096", "--causal"]
        for environment in ({}, {"OCL_ICD_VENDORS": "/nowhere"}):  # with and without OpenCL
            out, _ = self.run_it("tune", "--clinfo", dump, *wanted, environment=environment)
            self.assertIn("1:0 NVIDIA H200 elsewhere (NVIDIA CUDA): not here, so planned only", out)
            self.assertRegex(out, r"\n   1  forward_hopper +B_r 128  B_c 128 +384 items  cost 1.000  stages=3 q_stages=1 ping_pong=1 tma=1")
            self.assertRegex(out, r"\n      local memory: Q in 1 stage, .*: \d+ of \d+ bytes")
        rows = json.loads(self.run_it("tune", "--clinfo", dump, *wanted, "--json")[0])
        listed = [row for row in rows if "H200" in str(row["device"])][0]["candidates"]
        self.assertGreater(len(listed), 20)
        self.assertFalse(os.path.exists(self.db))

    def test_clinfo_missing_or_broken_is_reported(self):
        empty = self.path("bin")
        os.mkdir(empty)
        quick = ["tune", *SMALL, "--budget", 3]
        _, err = self.run_it(*quick, environment={"PATH": empty})
        self.assertIn("the library's own query is used", err)
        with open(os.path.join(empty, "clinfo"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho '{\"platforms\": ['\n")
        os.chmod(os.path.join(empty, "clinfo"), 0o755)
        _, err = self.run_it(*quick, environment={"PATH": empty + ":" + os.environ["PATH"]})
        self.assertIn("not the output of 'clinfo --json'", err)
        self.assertIn("the library's own query is used", err)
        self.run_it("tune", "--device", "0:77", status=USAGE)
        for heads in ([], ["--heads", 5]):
            _, err = self.run_it("tune", "--kv-heads", 2, *heads, status=USAGE)
            self.assertIn("--kv-heads 2 needs --heads, a multiple of it", err)
        self.run_it("tune", status=DEVICE, environment={"OCL_ICD_VENDORS": "/nowhere"})


if __name__ == "__main__":
    CLATTN, DUMPS, LAYER = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=sys.argv[:1], verbosity=2)
