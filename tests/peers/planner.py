#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether the planner's choice is near the best that tuning finds: random shapes of both directions, each tuned by
`clattn tune` for some seconds.

    planner.py --clattn build/tools/clattn --device 0:0 --shapes 40 --budget 20 [--builders N] [--seed S] [--json FILE]

A shape has batch 1 to 64, heads 4 to 128 in groups of 1 to 16, 17 to 20,000 rows and keys, d 32 to 256, fp16 or bf16, causal or
not; as many as the device's memory holds. One line each: the planner's time over the best, where 1 is none better. `tune` verifies
what it measures, and takes a candidate as better where it is so by 2 % in three of four turns. --builders N processes compile
ahead: where compiling takes seconds, few of them leave time for few candidates. --first N leaves N shapes out, so that runs can
share them. Exit status: 0, 1 a shape beyond --limit (1.1), 4 a run of the command failed.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

WIDTHS = (32, 64, 64, 80, 96, 128, 128, 128, 192, 256)
MOST_ELEMENTS = 1 << 28  # of a tensor
MOST_FLOP = 4e13         # of a call, so that some candidates can be timed within the budget


def draw(source):
    """One shape that fits; lengths are even on a scale of logarithms."""
    while True:
        group = source.choice((1, 1, 2, 4, 8, 16))
        kv_heads = source.choice((1, 2, 4, 8, 16, 32))
        shape = {"pass": source.choice(("forward", "backward")), "dtype": source.choice(("fp16", "bf16")),
                 "batch": 2 ** source.randint(0, 6), "heads": group * kv_heads, "kv_heads": kv_heads,
                 "n": int(round(math.exp(source.uniform(math.log(17), math.log(20000))))), "d": source.choice(WIDTHS),
                 "causal": source.random() < 0.5}
        elements = shape["batch"] * shape["heads"] * shape["n"] * shape["d"]
        if 4 <= shape["heads"] <= 128 and elements <= MOST_ELEMENTS and 14 * elements * shape["n"] <= MOST_FLOP:
            return shape


def tune(arguments, shape, folder):
    words = [arguments.clattn, "tune", "--device", arguments.device, "--db", os.path.join(folder, "tuning.json"), "--json", "--quiet",
             "--budget", str(arguments.budget), "--causal=" + ("on" if shape["causal"] else "off")]
    if arguments.builders is not None:
        words += ["--builders", str(arguments.builders)]
    for name in ("pass", "dtype", "batch", "heads", "kv_heads", "n", "d"):
        words += ["--" + name.replace("_", "-"), str(shape[name])]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return None, "%s: status %d: %s" % (" ".join(words), done.returncode, done.stderr.strip())
    return json.loads(done.stdout)[0], None


def ratio(row):
    """The planner's time over the best; None: nothing was measured."""
    return row["untuned_ms"] / row["tuned_ms"] if row["untuned_ms"] and row["tuned_ms"] else None


def say(number, shape, row):
    tried = sum(candidate["state"] is not None for candidate in row["candidates"])
    best = row["candidates"][row["best"]] if row["best"] is not None else None
    words = "%-8s %s batch %d, heads %d on %d, n %d, d %d, %s" % (shape["pass"], shape["dtype"], shape["batch"], shape["heads"], shape["kv_heads"],
                                                                shape["n"], shape["d"], "causal" if shape["causal"] else "full")
    found = ratio(row)
    end = "nothing measured" if found is None else "%.3f, %d of %d tried, planned %s %dx%d" % (
        found, tried, len(row["candidates"]), row["candidates"][0]["skeleton"], row["candidates"][0]["b_r"], row["candidates"][0]["b_c"])
    if best and row["best"] != 0:
        end += ", best %s %dx%d %s" % (best["skeleton"], best["b_r"], best["b_c"], best["knobs"])
    print("%2d %s: %s" % (number, words, end), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clattn", required=True)
    parser.add_argument("--device", default="0:0")
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--builders", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1.1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    shapes = [draw(source) for _ in range(arguments.first + arguments.shapes)][arguments.first:]
    rows, worst = [], 1.0
    for number, shape in enumerate(shapes, arguments.first):
        with tempfile.TemporaryDirectory() as folder:
            row, error = tune(arguments, shape, folder)
        if error:
            print("planner.py: " + error, file=sys.stderr)
            return 4
        say(number, shape, row)
        rows.append({**shape, "ratio": ratio(row), **{name: row[name] for name in ("untuned_ms", "tuned_ms", "best", "candidates")}})
        worst = max(worst, ratio(row) or 1.0)
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    print("%d shapes, the worst %.3f" % (len(rows), worst))
    return 0 if worst <= arguments.limit else 1


if __name__ == "__main__":
    sys.exit(main())
