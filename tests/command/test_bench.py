#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn bench`: its rows and grids, and what they are in proportion to."""
import json
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CommandTest, USAGE, run_tests


class Bench(CommandTest):
    KEYS = {"device", "driver", "path", "pass", "dtype", "batch", "heads", "n_q", "n_kv", "d", "causal", "median_ms",
            "min_ms", "max_ms", "q1_ms", "q3_ms", "tflops", "share_of_peak", "share_problem", "standard_ms", "extra_bytes",
            "standard_bytes", "first_call_ms", "grid", "problem", "peak_of", "copy_gbps", "intensity", "limit_tflops",
            "share_of_limit", "limited_by", "peak_bytes", "standard_peak_bytes", "traffic_bytes", "standard_traffic_bytes",
            "paper_bytes", "least_bytes", "enqueue_us", "enqueue_min_us", "rounds", "disturbed", "standard_disturbed"}

    def assert_ceilings(self, row):
        """The limit is the lower roof of the row's own numbers, and the shares are of these."""
        copied = row["copy_gbps"] * 1e-3 * row["intensity"]
        self.assertAlmostEqual(row["limit_tflops"], min(row["peak_tflops"], copied), delta=1e-3 * row["limit_tflops"])
        self.assertEqual(row["limited_by"], "copy" if copied < row["peak_tflops"] else "peak")
        self.assertAlmostEqual(row["share_of_limit"], row["tflops"] / row["limit_tflops"], delta=1e-3 * row["share_of_limit"])
        flops = row["tflops"] * row["median_ms"] * 1e9
        self.assertAlmostEqual(row["intensity"], flops / row["least_bytes"], delta=1e-3 * row["intensity"])
        self.assertGreaterEqual(row["traffic_bytes"], row["least_bytes"])

    def test_calls(self):
        """Calls in a row are divided, take no longer each than one by itself and its launch, and are told of."""
        words = ["bench", "--n", "512", "--heads", "2", "--no-standard", "--repetitions", "5", "--again", "0", "--json"]
        one, = json.loads(self.run_it(*words).stdout)
        four, = json.loads(self.run_it(*words, "--calls", "4").stdout)
        self.assertEqual((one["calls"], four["calls"]), (1, 4))
        self.assertTrue(0.1 * one["min_ms"] < four["min_ms"] < 3.0 * one["max_ms"], (one, four))

    def test_again(self):
        """At most so many rounds more than one, and none where repetitions agree or say nothing."""
        words = ["bench", "--n", "64", "--heads", "2", "--json", "--repetitions"]
        for repetitions, again, most in ((1, 5, 1), (3, 0, 1), (7, 2, 3)):
            row, = json.loads(self.run_it(*words, str(repetitions), "--again", str(again)).stdout)
            self.assertIn(row["rounds"], range(1, most + 1))
            self.assertEqual(row["disturbed"] is None, repetitions < 3)
            self.assertIn(row["standard_disturbed"], (None, False, True))
            if row["rounds"] == most == 3 or not again:
                continue
            self.assertFalse(row["disturbed"] or row["standard_disturbed"], row)

    def test_rows(self):
        rows = json.loads(self.run_it("bench", "--n", "64,128", "--heads", "2", "--kv-heads", "1", "--causal", "both",
                                      "--repetitions", "3", "--again", "0", "--json").stdout)
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
            self.assertEqual(row["least_bytes"], row["peak_bytes"])  # all of it once; no workspace here
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

    def test_grids(self):
        words = ["bench", "--repetitions", "1", "--no-standard", "--json"]
        rows = json.loads(self.run_it(*words, "--grid", "flash", "--n", "512", "--d", "64", "--causal", "on").stdout)
        self.assertEqual([(r["n_q"], r["d"], r["causal"], r["pass"]) for r in rows], [(512, 64, True, "forward")])
        rows = json.loads(self.run_it(*words, "--grid", "memory,decode", "--n", "128,256,1024").stdout)
        self.assertEqual([(r["grid"], r["batch"], r["heads"], r["kv_heads"], r["n_q"], r["n_kv"], r["d"]) for r in rows],
                         [("memory", 1, 1, 1, n, n, 64) for n in (128, 256, 1024)] +
                         [("decode", batch, 32, 8, 1, 1024, 128) for batch in ((1, 16) if self.on_cpu() else (1, 16, 64))])
        for row in rows[:3]:  # flash beyond its tensors: a float for each row; standard: one for each pair
            splits, rest = divmod(row["extra_bytes"] - 4 * row["n_q"], 4 * row["n_q"] * (row["d_v"] + 2))
            self.assertEqual(rest, 0)  # where keys are split, as one head's are on many cores, m, l and O of a row in each part
            self.assertIn(splits, range(64))
            self.assertGreaterEqual(row["standard_bytes"], 4 * row["n_q"] ** 2)
            self.assertEqual(row["standard_peak_bytes"], row["peak_bytes"] - row["extra_bytes"] + row["standard_bytes"])
            self.assertIn("not asked for", row["standard_problem"])
        for row in rows[3:]:
            self.assertLess(row["intensity"], 2.1)  # four heads share each key that is read, 4 bytes a float
            self.assert_ceilings(row)

    def test_a_read_of_keys(self):
        """K and V of different sizes, one call and several; too small to be read by anyone."""
        words = ["bench", "--repetitions", "1", "--no-standard", "--json", "--n-q", "1", "--d-v", "8", "--heads", "4"]
        for more in ([], ["--calls", "3"]):
            row, = json.loads(self.run_it(*words, "--n-kv", "2048", "--d", "32", *more).stdout)
            self.assertGreater(row["read_gbps"], 0.0)
            self.assertAlmostEqual(row["share_of_read"], row["least_bytes"] / row["read_gbps"] * 1e-6 / row["median_ms"],
                                   delta=1e-3 * row["share_of_read"])
        row, = json.loads(self.run_it(*words, "--n-kv", "1", "--d", "8", "--heads", "1").stdout)
        self.assertEqual((row["read_gbps"], row["share_of_read"]), (None, None))

    def test_what_does_not_fit(self):
        words = ["bench", "--n-q", "1", "--n-kv", "1000000000", "--heads", "64", "--no-standard"]
        row, = json.loads(self.run_it(*words, "--json").stdout)
        self.assertIn("is more than", row["problem"])
        self.assertEqual((row["median_ms"], row["tflops"], row["share_of_limit"]), (None, None, None))
        self.assertGreaterEqual(row["extra_bytes"], 4 * 64)  # and what splits of the keys need
        self.assertEqual(row["peak_bytes"], 64 * 64 * 4 * 2 * (1000000000 + 1) + row["extra_bytes"])
        self.assertIn("is more than", self.run_it(*words).stdout)

    def test_keys_are_split_at_their_multiples(self):
        words = ["bench", "--n-q", "1", "--n-kv", "1000000000", "--heads", "64", "--no-standard", "--json"]
        def extra(*more):
            return json.loads(self.run_it(*words, *more).stdout)[0]["extra_bytes"]
        whole, halves, quarters = (extra(*more) for more in (["--splits", "1"], ["--split-keys", "500000000"],
                                                             ["--split-keys", "250000000"]))
        self.assertGreaterEqual(halves - whole, 2 * 64 * 4 * (64 + 2))  # m, l and O of a row and part
        self.assertEqual(quarters - halves, 2 * 64 * 4 * (64 + 2))
        for more, says in ((["--split-keys", "9", "--splits", "2"], ["--splits 2", "--split-keys 9"]),
                           (["--split-keys", "9", "--pass", "backward"], ["--split-keys", "forward"]),
                           (["--split-keys", "0"], ["--split-keys"])):
            self.refused(USAGE, *words, *more, says=says)

    def test_matrix_units_have_a_peak_of_their_own(self):
        row, = json.loads(self.run_it("bench", "--n", "64", "--heads", "1", "--dtype", "fp16", "--repetitions", "1", "--skeleton",
                                      "forward_matrix_emulated", "--knobs", "stale_max=1", "--no-standard", "--json").stdout)
        self.assertEqual(row["peak_of"], "emulated matrix units")
        self.assertIn("stale_max=1", row["knobs"])
        self.refused(USAGE, "bench", "--n", "64", "--knobs", "stale_max=1", says=["--knobs 'stale_max=1'", "--skeleton"])
        self.refused(USAGE, "bench", "--n", "64", "--b-c", "32", says=["--b-c '32'", "--skeleton"])
        self.assertGreater(row["peak_tflops"], 0.0)
        self.assert_ceilings(row)


if __name__ == "__main__":
    run_tests()
