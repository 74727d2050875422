#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs many schedules of each model of a kernel whose parts wait for each other, and writes what came of them as JSON.

    tests/model/record.py BUILD --kernel backward_hopper=1000000 --kernel forward_hopper=1000000 --jobs 16 --json FILE

The schedules of a kernel are shared out evenly among its models (tests/model/meson.build), in runs of --run seeds each. No two runs
of a model have a seed in common. --seconds ends it early, with what was run by then. The exit status is 1 where a schedule hung or failed.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--kernel", metavar="NAME=SCHEDULES", action="append", required=True)
    parser.add_argument("--run", metavar="N", type=int, default=2000)
    parser.add_argument("--first", metavar="SEED", type=int, default=1 << 32, help="the first seed; tests begin at 0")
    parser.add_argument("--jobs", metavar="N", type=int, default=1)
    parser.add_argument("--seconds", metavar="S", type=float, default=float("inf"))
    parser.add_argument("--commit", help="what the sources are, where git does not know")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, required=True)
    return parser.parse_args()


def models_of(build, kernel):
    """The programs, but those that have to fail."""
    found = sorted(path for path in (build / "tests/model").glob("model_%s_*" % kernel) if path.is_file())
    if not found:
        sys.exit("record.py: %s has no models of %s: ninja -C %s" % (build, kernel, build))
    return found


def runs_of(arguments):
    """(model, schedules, first seed), of each model in turn."""
    runs = []
    for kernel, schedules in (word.split("=") for word in arguments.kernel):
        models = models_of(arguments.build, kernel)
        share = -(-int(schedules) // len(models))
        runs += [(at, model, min(arguments.run, share - at)) for at in range(0, share, arguments.run) for model in models]
    return [(model, count, arguments.first + at) for at, model, count in sorted(runs, key=lambda run: run[0])]


def run(model, count, seed, end):
    if time.monotonic() > end:
        return model, 0, None
    done = subprocess.run([model, str(count), str(seed)], capture_output=True, text=True, check=False)
    return model, count if done.returncode == 0 else 0, done.stderr.strip() if done.returncode else None


def main():
    arguments = parse_arguments()
    end, rows = time.monotonic() + arguments.seconds, {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for model, count, fault in pool.map(lambda one: run(*one, end), runs_of(arguments)):
            row = rows.setdefault(model.name, {"model": model.name, "schedules": 0, "faults": []})
            row["schedules"] += count
            row["faults"] += [fault] if fault is not None else []
    commit = arguments.commit or subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                                check=True).stdout.strip()
    rows = sorted(rows.values(), key=lambda row: row["model"])
    kernels = {word.split("=")[0]: 0 for word in arguments.kernel}
    for kernel in kernels:
        kernels[kernel] = sum(row["schedules"] for row in rows if row["model"].startswith("model_%s_" % kernel))
    words = " ".join("--kernel " + word for word in arguments.kernel)
    record = {"commit": commit, "command": "tests/model/record.py BUILD %s --run %d --first %d --jobs N --json FILE" %
              (words, arguments.run, arguments.first), "schedules": kernels, "faults": sum(len(row["faults"]) for row in rows), "models": rows}
    arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    print(", ".join("%s %d schedules" % item for item in kernels.items()) + "; %d faults" % record["faults"])
    return record["faults"] > 0


if __name__ == "__main__":
    sys.exit(main())
