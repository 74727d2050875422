#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn verify`, and that it finds wrong results."""
import json
import os
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CLATTN, CommandTest, FILE, LAYER, MISMATCH, USAGE, run_tests
from terminal import on_terminal


class Verify(CommandTest):
    def test_some_cases(self):
        for only in (0, 5, 8, 10):
            outcome = json.loads(self.run_it("verify", "--seed", "1", "--only", only, "--json").stdout)
            self.assertEqual((outcome["cases"], outcome["failed"], outcome["seed"]), (1, 0, 1))
            self.assertEqual(outcome["largest_error_case"], only if outcome["largest_error_share"] else None)
        self.refused(USAGE, "verify", "--only", "100000", says=["--only 100000"])

    def test_parts(self):
        """Three parts are all of the cases, each once. (The kernels are those of test_quick, which are compiled once.)"""
        words = ["verify", "--seed", "2", "--skeleton", "backward_cpu" if self.on_cpu() else "backward_simt"]
        refused = self.refused(USAGE, *words, "--only", "100000").stderr
        whole = int(re.search(r"numbered 0 to (\d+)", refused)[1]) + 1
        parts = [json.loads(self.run_it(*words, "--json", "--part", "%d/3" % part).stdout) for part in (1, 2, 3)]
        self.assertEqual(sum(part["cases"] for part in parts), whole)
        for part in parts:
            self.assertGreater(part["cases"], whole // 6)
        for wrong in ("0/3", "4/3", "1", "1/3x", "a/b", "1/0"):
            self.refused(USAGE, "verify", "--part", wrong, says=["--part '%s'" % wrong, "2/8"])
        self.refused(USAGE, "verify", "--part", "1/2", "--only", "1", says=["one of them"])
        self.refused(USAGE, "verify", "--part", "9999/10000", says=["--part 9999/10000"])

    def test_pairs_of_bf16(self):
        """What CPUs compute by AVX512-BF16, in plain C, where the processor may have none of it."""
        if not self.on_cpu():
            self.skipTest("a CPU's unit")
        for skeleton, least in (("forward_cpu", 3), ("backward_cpu", 2)):
            outcome = json.loads(self.run_it("verify", "--seed", "3", "--skeleton", skeleton, "--knobs", "dot=2", "--part", "1/3",
                                             "--json").stdout)
            self.assertGreaterEqual(outcome["passed"], least, outcome)
            self.assertEqual(outcome["failed"], 0, outcome)

    def test_wrong_results(self):
        """A case reads q, k, v, o, lse, m and l back from the device, in this order, and again after a run that was not asked for m and
        l; one of these reads is made to lie. Which number that is: the first after the laws of a skeleton that all devices have."""
        case = ["verify", "--seed", "1", "--skeleton", "forward_simt", "--only", "7"]
        reads = [(name, "this input was changed") for name in ("q", "k", "v")]
        reads += [("o", "is allowed|outside the tensor")]  # where its rows have gaps, the lie may lie in one
        reads += [(name, "is allowed") for name in ("lse", "m", "ln l")]
        reads += reads[:5]
        self.run_it(*case, environment={"OPENCL_LAYERS": LAYER})
        for number, (name, reason) in enumerate(reads, 1):
            lie = {"OPENCL_LAYERS": LAYER, "CLATTN_FAULT_CORRUPT_READ": str(number)}
            outcome = json.loads(self.run_it(*case, "--json", environment=lie, status=MISMATCH).stdout)
            self.assertEqual((outcome["cases"], outcome["passed"], outcome["failed"]), (1, 0, 1))
            failure = outcome["failures"][0]
            self.assertTrue(failure["name"].startswith("reference"), failure["name"])
            self.assertRegex(failure["reason"], "^%s: .*(%s)" % (name, reason))
            self.assertIn("--seed 1", failure["reproduce"])
        lie["CLATTN_FAULT_CORRUPT_READ"] = "7"
        result = self.run_it(*case, environment=lie, status=MISMATCH)
        self.assertRegex(result.stdout, r"FAILED case 7: .*\n  ln l: error .*\n  reproduce: clattn verify .* --only 7\n")
        self.assertIn("FAILED: 0 of 1 cases passed", result.stdout)

    def test_wrong_gradients(self):
        """Nothing is said but that: a skeleton of gradients is not asked for among those of forward passes. (A case of test_quick.)"""
        lie = {"OPENCL_LAYERS": LAYER, "CLATTN_FAULT_CORRUPT_READ": "1"}
        skeleton = "backward_cpu" if self.on_cpu() else "backward_simt"
        result = self.run_it("verify", "--seed", "2", "--skeleton", skeleton, "--only", "1", "--quiet", environment=lie, status=MISMATCH)
        self.assertNotIn("clattn verify:", result.stderr)

    def test_knobs(self):
        self.refused(USAGE, "verify", "--knobs", "stale_max=1", says=["--knobs 'stale_max=1'", "--skeleton"])
        if not self.on_cpu():
            return
        case = ["verify", "--seed", "1", "--skeleton", "forward_matrix_emulated", "--only", "0"]
        self.run_it(*case, "--knobs", "stale_max=1")
        wrong = self.run_it(*case, "--knobs", "stale_max=2", status=MISMATCH).stdout
        self.assertIn("stale_max=2", wrong)
        self.assertIn("--knobs 'stale_max=2' --only 0", wrong)

    def test_sizes(self):
        self.refused(USAGE, "verify", "--b-r", "16", says=["--b-r '16'", "--skeleton"])
        if not self.on_cpu():
            return
        case = ["verify", "--seed", "1", "--only", "0"]
        self.run_it(*case, "--skeleton", "forward_cpu", "--b-r", "16", "--b-c", "32")
        lie = {"OPENCL_LAYERS": LAYER, "CLATTN_FAULT_CORRUPT_READ": "1"}
        wrong = self.run_it(*case, "--skeleton", "forward_cpu", "--b-r", "16", "--b-c", "32", environment=lie, status=MISMATCH)
        self.assertIn("--skeleton forward_cpu --b-r 16 --b-c 32 --only 0", wrong.stdout)
        beyond = self.run_it(*case, "--skeleton", "forward_matrix_emulated", "--b-c", "24").stdout
        self.assertIn("nothing certified: 0 of 1 cases passed, 1 skipped", beyond)
        self.assertIn("or these sizes the case", beyond)
        self.assertRegex(" ".join(beyond.split()), "skipped first: case 0: .*: CLATTN_NOTHING_FITS: .* b_c 24,")

    def soak(self, *words, cases=2, **more):
        """A soak of cases that are quickly compiled, in a file that all soaks of a test share."""
        kernel = "forward_cpu" if self.on_cpu() else "forward_simt"
        return self.run_it("verify", "--soak", "600", "--seed", "3", "--skeleton", kernel, "--soak-file", self.path("soak"),
                           "--without", "block_mask,dropout,varlen,bias,score_mod,mask_mod", "--jobs", "1",
                           "--per-program", "2", "--cases", cases, *words, **more)

    def lines(self):
        with open(self.path("soak"), encoding="utf-8") as file:
            return file.read().splitlines()

    def kept(self):
        return [json.loads(line) for line in self.lines()[1:]]

    def test_soak(self):
        """Two cases; then a wrong one, that a run by its seed finds, too; a process that is killed; and others again."""
        report = json.loads(self.soak("--json").stdout)
        self.assertEqual((report["failed"], report["new"], report["seed"]), (0, 2, 3))
        self.assertEqual((report["all"]["cases"], report["all"]["ok"], report["all"]["programs"]), (2, 2, 1))
        first = self.kept()
        self.assertEqual([case["outcome"] for case in first], ["ok", "ok"])
        self.assertEqual(first[1]["seed"], first[0]["seed"] + 1)
        lie = {"OPENCL_LAYERS": LAYER, "CLATTN_FAULT_CORRUPT_READ": "4"}  # q, k, v, o: see test_wrong_results
        wrong = self.soak(cases=1, environment=lie, status=MISMATCH).stdout
        self.assertRegex(wrong, r"wrong: .*\n  \w+: .*\n  reproduce: clattn verify --device \d+:\d+ --skeleton \w+ --case-seed \d+\n")
        self.assertIn("FAILED: 1 of 3 cases failed; 1 of them in this run", wrong)
        bad = self.kept()[-1]
        self.assertEqual((bad["outcome"], len(self.kept())), ("wrong", 3))
        again = re.search(r"reproduce: clattn (.*)", wrong)[1].split()
        self.assertEqual(again[-1], str(bad["seed"]))
        self.assertIn("certified: 1 of 1", self.run_it(*again).stdout)
        found = self.run_it(*again, "--without", "window,sinks", environment=lie, status=MISMATCH).stdout
        self.assertIn("--case-seed %d --without window,sinks" % bad["seed"], found)
        self.assertNotRegex(found, "window \\d")
        self.soak(cases=1, status=MISMATCH)  # the report is of all cases of the file
        self.assertEqual(len({case["seed"] for case in self.kept()}), 4)

    def test_soak_is_killed(self):
        """Whenever that is, what it had done is in the file, its process ends with it, and the next one goes on."""
        self.soak(cases=2)
        words = ["verify", "--soak", "600", "--skeleton", "forward_cpu" if self.on_cpu() else "forward_simt", "--soak-file",
                 self.path("soak"), "--per-program", "10", "--jobs", "1", "--quiet"]
        process = subprocess.Popen([CLATTN, *words], stdout=subprocess.DEVNULL)
        for _ in range(600):
            if len(self.lines()) > 3:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with open(self.path("soak"), "a", encoding="utf-8") as file:
            file.write('{"seed":30000')  # as if it had been amid a line
        before = len(self.lines()) - 2
        self.assertGreaterEqual(before, 3)
        report = json.loads(self.soak("--json").stdout)
        self.assertEqual((report["new"], report["all"]["cases"] + report["all"]["refused"]), (2, before + 2))
        self.assertEqual(len({case["seed"] for case in self.kept()}), before + 2)

    def test_soak_on_a_terminal(self):
        kernel = "forward_cpu" if self.on_cpu() else "forward_simt"
        status, text = on_terminal([CLATTN, "verify", "--soak", "600", "--seed", "3", "--skeleton", kernel, "--cases", "1", "--without",
                                    "block_mask,dropout,varlen,bias,score_mod,mask_mod"], "stderr", {})
        self.assertEqual(status, 0)
        self.assertRegex(text, r"\d cases, \d of them new, 0 failed, \d+ of 600 s")

    def test_soak_usage(self):
        for words, says in ((["--soak", "0"], "--soak '0'"), (["--soak", "5", "--full"], "no other selection"),
                            (["--soak-file", "x"], "go with --soak"), (["--cases", "4"], "go with --soak"),
                            (["--without", "bias"], "go with --soak"), (["--soak", "5", "--require", "bais"], "--require 'bais'"),
                            (["--case-seed", "1", "--soak", "5"], "no other selection"), (["--soak", "5", "--b-r", "16"], "sizes"),
                            (["--soak", "5", "--per-program", "11"], "--per-program '11'"),
                            (["--soak", "5", "--seed", "90000000001"], "--seed 90000000001"),
                            (["--soak", "5", "--skeleton", "forward_simt", "--require", "ordered"], "no case was done")):
            self.refused(USAGE, "verify", *words, says=[says])
        with open(self.path("soak"), "w", encoding="utf-8") as file:
            file.write("{}\n")
        self.refused(FILE, "verify", "--soak", "5", "--soak-file", self.path("soak"), says=["line 1"])
        self.assertEqual(os.path.getsize(self.path("soak")), 3)

    def of_turn(self):
        """One of eight turns, as tests/support/turn.h has them."""
        turn = os.environ.get("CLATTN_TEST_TURN", "0" if self.on_cpu() else "all")
        return [] if turn == "all" or os.environ.get("CLATTN_TEST_FULL") == "1" else ["--part", "%d/8" % (int(turn) % 8 + 1)]

    def test_quick(self):
        """In eight turns: the device tests have each kernel, feature and type."""
        result = self.run_it("verify", "--quick", "--seed", "2", *self.of_turn())
        self.assertRegex(result.stdout, r"certified: (\d+) of \1 cases passed; largest error [1-9]\d* % of what is allowed \(case \d+: \w[^,]*, ")
        self.assertIn("seed 2", result.stdout)


if __name__ == "__main__":
    run_tests()
