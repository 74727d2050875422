#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The report that `clattn report` packs: whole JSON whatever its steps do, within its time, without private names."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CLATTN, CommandTest, DEVICE, FILE, USAGE, run_tests

OUTCOMES = {"done", "failed", "timed out", "crashed", "stopped", "no time"}
STEPS = ["plan fp16", "plan fp32 backward", "verify", "bench fp16 forward", "bench fp32 forward", "bench bf16 forward",
         "bench fp16 backward", "bench fp32 backward", "bench decode", "tune"]


class Report(CommandTest):
    def judge(self, text):
        report = json.loads(text)
        self.assertEqual((report["format"], report["version"]), ("clattn report", 1))
        self.assertEqual([step["name"] for step in report["steps"]], STEPS)
        for step in report["steps"]:
            self.assertIn(step["outcome"], OUTCOMES)
            self.assertNotIn(self.folder.name, json.dumps(step))
        devices = json.loads(self.run_it("devices", "--json").stdout)
        self.assertIn(report["device"], devices)
        return {step["name"]: step for step in report["steps"]}

    def test_in_time(self):
        begin = time.monotonic()
        done = self.run_it("report", "--seconds", 15, "--out", self.path("r.json"), environment={"HOME": self.folder.name, "TMPDIR": self.folder.name})
        self.assertLess(time.monotonic() - begin, 60)
        with open(self.path("r.json"), encoding="utf-8") as file:
            steps = self.judge(file.read())
        self.assertIn("r.json", os.listdir(self.folder.name))
        self.assertFalse([name for name in os.listdir(self.folder.name) if name.startswith("clattn-report-")])
        self.assertEqual(steps["plan fp16"]["outcome"], "done", steps["plan fp16"])
        self.assertEqual(steps["plan fp16"]["exit_status"], 0)
        self.assertIn("skeleton", json.dumps(steps["plan fp16"]["printed"]))
        self.assertEqual(steps["tune"]["outcome"], "no time")
        self.assertIn("tune", done.stdout)

    def test_stopped(self):
        process = subprocess.Popen([CLATTN, "report", "--out", "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.judge(text)["tune"]["outcome"], "stopped")

    def test_refused(self):
        self.refused(USAGE, "report", "--device", "99:0", says=["99:0", "clattn devices"])
        self.refused(USAGE, "report", "--seconds", 3, says=["--seconds '3'"])
        self.refused(FILE, "report", "--out", self.path("absent") + "/r.json", says=["absent"])
        self.refused(DEVICE, "report", "--out", self.path("r.json"), environment={"OCL_ICD_VENDORS": self.path("nowhere"),
                     "OCL_ICD_FILENAMES": ""}, says=["no OpenCL platform"])
        self.assertEqual(os.listdir(self.folder.name), [])


run_tests()
