#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether a build of the command is as fast as another: both measure the same rows, in turns, so that a change of clock meets both.

    two_builds.py BEFORE NOW [--rounds N] [--mean X] [--cell X] [--cells FILE] -- OPTIONS OF CLATTN BENCH

    tests/peers/two_builds.py old/tools/clattn build/tools/clattn -- --grid flash --n 512,1024,2048 --pass both

BEFORE and NOW are two commands. Each runs `bench` with the options behind --, without standard attention, once for each round; a
row counts by the least of its medians. One line a row: the time now, and the time before divided by it. Then the geometric mean.
--cells writes the rows to FILE, as the cells of tests/data/measured/h200-before.json are.
The exit status is 1 where that is below 1 - X of --mean (0.03) or a row below 1 - X of --cell (0.05). What runs beside it counts:
the machine has to be quiet.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

KEYS = ("pass", "dtype", "batch", "heads", "kv_heads", "n_q", "n_kv", "d", "d_v", "causal")


def measure(command, options):
    """Milliseconds of each row that ran, by what identifies it."""
    output = subprocess.run([command, "bench", *options, "--no-standard", "--quiet", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return {tuple(row.get(key) for key in KEYS): row["median_ms"] for row in json.loads(output) if row["median_ms"]}


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("now")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mean", type=float, default=0.03)
    parser.add_argument("--cell", type=float, default=0.05)
    parser.add_argument("--cells", type=pathlib.Path)
    arguments = parser.parse_args(words[:at])
    before, now = {}, {}
    turns = [(arguments.before, before), (arguments.now, now)]
    for _ in range(arguments.rounds):
        for command, least in turns:
            for row, time in measure(command, words[at + 1:]).items():
                least[row] = min(time, least.get(row, time))
        turns.reverse()
    ratios = {row: before[row] / time for row, time in now.items() if row in before}
    if not ratios:
        sys.exit("no row ran in both builds")
    for row, ratio in ratios.items():
        print(f"{' '.join(f'{key} {value}' for key, value in zip(KEYS, row))}: {now[row]:.4f} ms, before / now {ratio:.3f}")
    if arguments.cells:
        cells = [{**dict(zip(KEYS, row)), "before_ms": before[row], "after_ms": now[row], "speed": round(ratio, 3)} for row, ratio in ratios.items()]
        arguments.cells.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    mean, lowest = statistics.geometric_mean(ratios.values()), min(ratios.values())
    print(f"{len(ratios)} rows: geometric mean {mean:.3f}, lowest {lowest:.3f}")
    return 0 if mean >= 1 - arguments.mean and lowest >= 1 - arguments.cell else 1


sys.exit(main())
