#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn verify`, and that it finds wrong results."""
import json
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CommandTest, LAYER, MISMATCH, USAGE, run_tests


class Verify(CommandTest):
    def test_some_cases(self):
        for only in (0, 5, 8, 10):
            outcome = json.loads(self.run_it("verify", "--seed", "1", "--only", only, "--json").stdout)
            self.assertEqual((outcome["cases"], outcome["failed"], outcome["seed"]), (1, 0, 1))
            self.assertEqual(outcome["largest_error_case"], only if outcome["largest_error_share"] else None)
        self.refused(USAGE, "verify", "--only", "100000", says=["--only 100000"])

    def test_parts(self):
        """Three parts are all of the cases, each once. (The kernels are those of test_quick, which are compiled once.)"""
        words = ["verify", "--seed", "2", "--skeleton", "forward_cpu" if self.on_cpu() else "forward_simt"]
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

    def test_knobs(self):
        self.refused(USAGE, "verify", "--knobs", "steady=1", says=["--knobs 'steady=1'", "--skeleton"])
        if not self.on_cpu():
            return
        case = ["verify", "--seed", "1", "--skeleton", "forward_matrix_emulated", "--only", "0"]
        self.run_it(*case, "--knobs", "steady=1")
        wrong = self.run_it(*case, "--knobs", "steady=2", status=MISMATCH).stdout
        self.assertIn("steady=2", wrong)
        self.assertIn("--knobs 'steady=2' --only 0", wrong)

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

    def test_quick(self):
        result = self.run_it("verify", "--quick", "--seed", "2")
        self.assertRegex(result.stdout, r"certified: (\d+) of \1 cases passed; largest error [1-9]\d* % of what is allowed \(case \d+: \w+, ")
        self.assertIn("seed 2", result.stdout)


if __name__ == "__main__":
    run_tests()
