#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How long a first call takes, which compiles, and how long the next one, in another process, whose caches are warm.

    first_call.py --clattn CLATTN [--device P:D] [--dtype fp16] [--rounds 3] [--json FILE]

Each is one `clattn run` from start to exit, with 1 x 4 x 256 x 64 elements: a plain problem and one with all features, forward
and with gradients. Of features, all that go together but functions of the user's own: not packed sequences, which exclude
lengths, nor pages, which have no gradients. "cold": the caches of clattn, PoCL and NVIDIA's driver are empty folders. Wall time is what a user waits;
CPU time is that of the process and its children, which other work on the machine does not lengthen. Medians over the rounds.
"""
import argparse
import json
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import random_npy

HEADS, N, D = 4, 256, 64
CODES = {"<f4": "f", "<f2": "e", "<i4": "i", "|b1": "?"}
FEATURES = ("--causal --window 150,0 --softcap 20 --alibi slopes.npy --bias bias.npy --mask mask.npy --sink sinks.npy --dropout 0.1 "
            "--seed 42 --block-mask blocks.npy --block-size 64,64 --key-lengths lengths.npy --query-lengths lengths.npy "
            "--row-shifts shifts.npy --tree-mask tree.npy --tree-keys 32 --bias-slopes slopes.npy").split()
GRADIENTS = "--grad-out do.npy --dq dq.npy --dk dk.npy --dv dv.npy".split()
PROBLEMS = {"plain, forward": [], "all features, forward": FEATURES, "plain, both passes": GRADIENTS,
            "all features, both passes": FEATURES + GRADIENTS}


def write_npy(path, kind, shape, values):
    with open(path, "wb") as file:
        file.write(random_npy.header(kind, shape))
        file.write(struct.pack("<%d%s" % (len(values), CODES[kind]), *values))


def write_arrays(folder, kind):
    source = random.Random(1)
    for name, shape in (("q", (1, HEADS, N, D)), ("k", (1, HEADS, N, D)), ("v", (1, HEADS, N, D)), ("do", (1, HEADS, N, D)),
                        ("bias", (1, 1, N, N))):
        count = shape[0] * shape[1] * shape[2] * shape[3]
        write_npy(os.path.join(folder, name + ".npy"), kind, shape, [source.gauss(0.0, 1.0) for _ in range(count)])
    for name in ("slopes", "sinks"):
        write_npy(os.path.join(folder, name + ".npy"), "<f4", (HEADS,), [0.5 ** (i + 1) for i in range(HEADS)])
    write_npy(os.path.join(folder, "shifts.npy"), "<i4", (1,), [16])
    write_npy(os.path.join(folder, "tree.npy"), "<i4", (N, 1), [-1] * N)
    write_npy(os.path.join(folder, "mask.npy"), "|b1", (1, 1, N, N), [source.random() < 0.7 for _ in range(N * N)])
    write_npy(os.path.join(folder, "blocks.npy"), "|b1", (N // 64, N // 64), [True] * (N // 64) ** 2)
    write_npy(os.path.join(folder, "lengths.npy"), "<i4", (1,), [200])


def run_once(arguments, folder, caches, options):
    """Wall and CPU seconds of one process."""
    environment = {**os.environ, "XDG_CACHE_HOME": os.path.join(caches, "xdg"), "POCL_CACHE_DIR": os.path.join(caches, "pocl"),
                   "CUDA_CACHE_PATH": os.path.join(caches, "cuda")}
    environment.pop("CLATTN_CACHE_DIR", None)
    words = [os.path.abspath(arguments.clattn), "run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--out", "o.npy", "--quiet"]
    words += (["--device", arguments.device] if arguments.device else []) + options
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        sys.exit("first_call.py: %s: %s" % (" ".join(words), result.stderr.strip()))
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(arguments, folder, options):
    times = {"cold": [], "warm": []}
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as caches:
            times["cold"].append(run_once(arguments, folder, caches, options))
            times["warm"].append(run_once(arguments, folder, caches, options))
    return {state: {"wall_s": statistics.median(wall for wall, _ in pairs), "cpu_s": statistics.median(cpu for _, cpu in pairs),
                    "rounds": [{"wall_s": wall, "cpu_s": cpu} for wall, cpu in pairs]} for state, pairs in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clattn", required=True)
    parser.add_argument("--device")
    parser.add_argument("--dtype", choices=["fp32", "fp16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    cells = []
    devices = json.loads(subprocess.run([arguments.clattn, "devices", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    device = [one for one in devices if one["device"] == arguments.device] or devices
    found = {"device": device[0]["name"], "driver": device[0]["driver"], "commit": arguments.commit,
             "command": " ".join(["first_call.py", *sys.argv[1:]]), "cells": cells}
    with tempfile.TemporaryDirectory() as folder:
        write_arrays(folder, "<f4" if arguments.dtype == "fp32" else "<f2")
        for name, options in PROBLEMS.items():
            cells.append({"problem": name, "dtype": arguments.dtype, **measure(arguments, folder, options)})
            print("%-28s cold %6.2f s (CPU %6.2f s), warm %6.3f s (CPU %6.3f s)" % (
                name, *(cells[-1][state][clock] for state in ("cold", "warm") for clock in ("wall_s", "cpu_s"))), flush=True)
            if arguments.json:  # after each: what is there is kept where a later one is interrupted
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump(found, file, indent=1)
                    file.write("\n")


if __name__ == "__main__":
    main()
