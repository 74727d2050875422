#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn bench` of both passes and of modifications, and the files it keeps and compares."""
import json
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CLATTN, CommandTest, DEVICE, FILE, USAGE, run_tests


class BenchPasses(CommandTest):
    def test_passes(self):
        rows = json.loads(self.run_it("bench", "--n", "64", "--heads", "2", "--pass", "both", "--repetitions", "2", "--json").stdout)
        self.assertEqual([row["pass"] for row in rows], ["forward", "backward"])
        forward, backward = rows
        self.assertTrue(backward["path"].startswith("backward_"))
        self.assertGreater(backward["enqueue_us"], 0.0)
        self.assertAlmostEqual(backward["tflops"], 2.5 * 4.0 * 2 * 64 * 64 * 64 / backward["median_ms"] * 1e-9,
                               delta=1e-3 * backward["tflops"])
        self.assertEqual(forward["extra_bytes"], 4 * 2 * 64)
        # Two kernels; one that has sums of dQ, a line of flags, of each head one, and two words of tickets.
        apart, sums = 6 * 4 * 2 * 64, (64 + 4) * 4 * 2 * 64 + 128 + 8
        self.assertIn(backward["extra_bytes"], (apart, apart + sums))
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

    def test_user_texts(self):
        """They are in the kernels: one that is not right in a device's language fails, and so does a derivative that is missing."""
        texts = {"score": "float score_mod(float score, int b, int h, int i, int j, __global const float *data) { return 2.0f * score; }",
                 "grad": "float score_mod_grad(float score, int b, int h, int i, int j, __global const float *data) { return 2.0f; }",
                 "mask": "bool mask_mod(int b, int h, int i, int j, __global const float *data) { return (i + j) % 4 != 0; }",
                 "wrong": "bool mask_mod(int b, int h, int i, int j, __global const float *data) { return colour; }"}
        for name, text in texts.items():
            with open(self.path(name), "w") as file:
                file.write(text)
        words = ["bench", "--n", "64", "--heads", "1", "--repetitions", "1"]
        both = ["--score-mod", self.path("score"), "--score-mod-grad", self.path("grad"), "--mask-mod", self.path("mask")]
        rows = json.loads(self.run_it(*words, *both, "--pass", "both", "--feature", "sinks", "--json").stdout)
        for row, factor in zip(rows, (1.0, 2.5), strict=True):
            self.assertEqual(row["features"], ["sinks", "score_mod", "mask_mod"])
            self.assertIn("plain", row["standard_problem"])
            self.assertAlmostEqual(row["tflops"], factor * 4.0 * 64 * 64 * 64 / row["median_ms"] * 1e-9, delta=1e-3 * row["tflops"])
        self.assertIn("with sinks, score_mod, mask_mod\n", self.run_it(*words, *both, "--feature", "sinks").stdout)
        self.assertIn("with mask_mod\n", self.run_it(*words, "--mask-mod", self.path("mask")).stdout)
        self.refused(DEVICE, *words, "--mask-mod", self.path("wrong"), says=["colour"])
        self.refused(FILE, *words, "--mask-mod", self.path("absent"), says=["absent"])
        self.refused(USAGE, *words, "--score-mod-grad", self.path("grad"), says=["--score-mod FILE"])
        self.refused(USAGE, *words, "--score-mod", self.path("score"), "--pass", "backward", says=["--score-mod-grad FILE"])
        self.refused(USAGE, "bench", "--from", self.path("score"), "--csv", "--score-mod", self.path("score"), says=["--from", "texts"])

    def test_table_and_file(self):
        result = self.run_it("bench", "--n-q", "1", "--n-kv", "100", "--no-standard", "--dtype", "fp16,bf16", "--repetitions",
                             "1", "--json", self.path("rows.json"))
        self.assertIn("fp16", result.stdout)
        with open(self.path("rows.json")) as file:
            rows = json.load(file)
        self.assertEqual([row["dtype"] for row in rows], ["fp16", "bf16"])
        self.assertEqual([row["standard_ms"] for row in rows], [None, None])

    def test_interrupted(self):
        """What was measured is written, and the process ends by the signal."""
        words = ["bench", "--n", ",".join(["64"] * 16), "--no-standard", "--pass", "both", "--repetitions", "2"]
        process = subprocess.Popen([CLATTN, *words, "--json", self.path("rows.json")], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        line = b"first"
        while line and not line.startswith(b"fp32"):
            line = process.stdout.readline()
        self.assertTrue(line, "the command ended before a row was measured")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, -signal.SIGINT)
        with open(self.path("rows.json")) as file:
            self.assertIn(len(json.load(file)), range(1, 32))

    def test_kept_and_compared(self):
        words = ["bench", "--n", "64", "--heads", "1", "--no-standard", "--repetitions", "3", "--again", "0"]
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
        result = self.refused(5, *words, "--json", "--compare", self.path("rows.json"), says=["1 of 1 rows are slower", "SLOWER"])
        self.assertEqual(len(json.loads(result.stdout)), 1)
        with open(self.path("rows.json"), "w") as file:
            file.write("[{]")
        self.refused(FILE, *words, "--compare", self.path("rows.json"), says=["rows.json: line 1"])


if __name__ == "__main__":
    run_tests()
