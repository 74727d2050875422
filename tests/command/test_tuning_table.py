#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tool behind the built-in table: what it adds is what the command reads, of any driver and kernels.

    test_tuning_table.py CLATTN TUNING_TABLE.py
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

CLATTN = ""
TOOL = ""


def record(b_r, n=1024, ms=1.5, best=False, state="ok", driver="1", kernels="0123456789abcdef0123456789abcdef"):
    return {"device": "P / D", "driver": driver, "kernels": kernels, "pass": "forward", "dtype": "fp32", "d": 64, "d_v": 64,
            "causal": False, "n_q_up_to": n, "n_kv_up_to": n, "skeleton": "forward_cpu", "b_r": b_r, "b_c": 64,
            "work_group_size": 1, "knobs": "", "state": state, "ms": ms if state == "ok" else 0,
            "runs": 3 if state == "ok" else 0, "best": best}


class TuningTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def keep(self, name, records, version=1):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": "clattn tuning", "version": version, "records": records}, file)
        return path

    def tool(self, *words):
        return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, check=False)

    def test_added_rows_serve_any_version(self):
        table = self.keep("table.json", [record(16, driver="*", kernels="*", best=True),
                                         record(48, n=4096, driver="*", kernels="*", best=True)])
        new = self.keep("new.json", [record(32, ms=1.6, best=True), record(64, ms=1.5), record(80, state="wrong"),
                                     record(96, n=0)])
        self.assertEqual(self.tool("--add", new, table).returncode, 0)
        read = subprocess.run([CLATTN, "tune", "--merge", table], capture_output=True, text=True, check=True).stdout
        rows = [(row["n_kv_up_to"], row["b_r"], row["driver"], row["kernels"], row["best"])
                for row in json.loads(read)["records"]]
        self.assertEqual(sorted(rows), [(0, 96, "*", "*", True), (1024, 32, "*", "*", True), (4096, 48, "*", "*", True)])
        with open(table, encoding="utf-8") as file:
            self.assertEqual(len(file.read().splitlines()), 5)  # a record a line
        output = os.path.join(self.folder, "table.c")
        self.assertEqual(self.tool("--output", output, table).returncode, 0)
        with open(output, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("cla_tuning_built_in_count = 3;", text)
        self.assertEqual(text.count(".b_r = "), 3)

    def test_other_files_are_refused(self):
        table = self.keep("table.json", [record(16)])
        for wrong in (self.keep("wrong.json", [], version=2), self.keep("empty.json", [], version=None)):
            done = self.tool("--add", wrong, table)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(wrong, done.stderr)


if __name__ == "__main__":
    CLATTN, TOOL = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1], verbosity=2)
