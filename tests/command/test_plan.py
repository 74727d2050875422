#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn plan`, of the device and of dumps of clinfo."""
import json
import os
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CommandTest, DEVICE, DUMPS, FILE, USAGE, run_tests


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

    def test_ways_that_are_disabled(self):
        words = ["plan", "--clinfo", os.path.join(DUMPS, "nvidia-h200.json"), "--dtype", "fp16", "--json"]
        for direction in ("forward", "backward"):
            for disabled, kind in (("", "hopper"), ("nvidia_wgmma", "matrix"), ("other, nvidia_wgmma", "matrix")):
                run = self.run_it(*words, "--pass", direction, environment=dict(os.environ, CLATTN_DISABLE=disabled))
                skeletons = [item["plan"]["skeleton"] for item in json.loads(run.stdout)]
                self.assertIn(f"{direction}_{kind}", skeletons, disabled)

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
                self.assertRegex(text, r"%s +a work-group (holds|ends the sums of)" % kernel["name"])
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

    def test_why_no_matrix_unit(self):
        for dump, d, pass_, says in (("intel-tgl", 64, "forward", "none: the driver has no cl_intel_subgroup_matrix_multiply_accumulate"),
                                     ("amd-gfx1030", 64, "backward", "none: there are kernels for gfx1100"),
                                     ("intel-dg2", 64, "forward", "intel_dpas is taken for head dimensions up to 32"),
                                     ("intel-pvc", 192, "backward", "intel_dpas takes head dimensions up to 128"),
                                     ("intel-pvc", 64, "forward", None)):
            words = ["plan", "--clinfo", os.path.join(DUMPS, dump + ".raw"), "--dtype", "fp16", "--d", str(d), "--pass", pass_, "--json"]
            plan = json.loads(self.run_it(*words).stdout)[0]["plan"]
            steps = [step["reason"] for step in plan["steps"] if step["name"] == "matrix unit"]
            self.assertEqual(plan["skeleton"], pass_ + ("_simt" if says else "_matrix"))
            self.assertEqual([bool(steps)], [bool(says)])
            self.assertTrue(not says or steps[0].startswith(says), steps)

    def test_small_grids(self):
        """Few blocks of rows are planned by their number, and not by what was measured with many."""
        words = ["plan", "--clinfo", os.path.join(DUMPS, "nvidia-h200.json"), "--dtype", "fp16", "--n", "16384", "--json"]

        def plan(*more):
            made = json.loads(self.run_it(*words, *more).stdout)[1]["plan"]
            return made["skeleton"], made["b_r"], made["splits"], made["chosen_by"]
        few, many = ["--heads", "4"], ["--heads", "32"]
        self.assertEqual(plan("--d", "64", "--causal", *many), ("forward_hopper", 256, 1, "the model"))
        self.assertEqual(plan("--d", "64", "--causal", *few), ("forward_hopper", 256, 1, "the model"))
        self.assertEqual(plan("--d", "64", *many), ("forward_hopper", 192, 1, "the model"))
        self.assertEqual(plan("--d", "64", *few), ("forward_hopper", 256, 1, "the model"))
        self.assertEqual(plan("--d", "128", *many), ("forward_hopper", 192, 1, "the model"))
        self.assertEqual(plan("--d", "128", *few), ("forward_hopper", 128, 1, "the model"))

    def test_sums(self):
        """Where the kernel of dK and dV sums up dQ, the plan says so."""
        dump = os.path.join(DUMPS, "nvidia-h200.json")
        words = ["plan", "--clinfo", dump, "--pass", "backward", "--dtype", "fp16", "--n", "4096", "--heads", "8"]
        cpu, gpu = [item["plan"] for item in json.loads(self.run_it(*words, "--json").stdout)]
        self.assertEqual((cpu["skeleton"], cpu["sums"]), ("backward_cpu", True))  # 16 units: one kernel
        words_of_cpu = ["plan", "--pass", "backward", "--n", "4096", "--skeleton", "backward_cpu", "--json", "--knobs"]
        for fused in (0, 1):
            plan = json.loads(self.run_it(*words_of_cpu, "fused=%d" % fused).stdout)[0]["plan"]
            self.assertEqual(plan["sums"], bool(fused))
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


if __name__ == "__main__":
    run_tests()
