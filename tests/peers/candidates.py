#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Times configurations of a kernel that are drawn at random, good ones and bad ones, beside what the planner's model
says of them.

    candidates.py CLATTN KERNEL [--device P:D] [--seconds N] [--builders N] [--rounds N] [--each N] [--seed N] --json FILE

Each is verified before it is timed, as `clattn tune` does it, by the same process (`clattn tune --worker`). Shapes take
turns, so that every one of them has some when time is over. The lower the estimate, the faster the model thinks it is.
"""
import argparse
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

FP32, FP16 = 0, 1

# d, causal, n; batch and heads so that the device is full.
SHAPES = [(64, 0, 4096), (128, 0, 4096), (64, 1, 4096), (128, 1, 4096), (32, 0, 4096), (96, 0, 4096), (64, 0, 1024),
          (128, 0, 1024), (192, 0, 4096), (256, 0, 4096)]


def forward_matrix(lanes=32):
    for tiles, b_r, b_c, keys in itertools.product((1, 2), (32, 64, 128, 256), (32, 64, 96, 128), (16, 32, 64, 128)):
        group = b_r // (16 * tiles) * lanes
        if b_c % keys == 0 and 2 * lanes <= group <= 512:
            for held, stale in itertools.product((0, 1), (0, 1)):
                yield b_r, b_c, group, f"keys={keys} q_registers={held} stale_max={stale} streams=0 sharers=1"


def backward_matrix(lanes=32):
    for b_r, b_c, groups in itertools.product((64, 128), (64, 128), (4, 8)):
        for moving, slice_, held in itertools.product((32, 64), (16, 32), (0, 1)):
            for split, stages in itertools.product((1, 2), (1, 2)):
                side = f"_fixed_registers={held} {{0}}_moving={moving} {{0}}_slice={slice_}"
                yield b_r, b_c, groups * lanes, (f"dk_dv{side.format('dk_dv')} dk_dv_split={split} dk_dv_stages={stages} "
                                                 f"dq{side.format('dq')} dq_stages={stages}")


def simt():
    for tx, ty, rows, columns in itertools.product((8, 16, 32), (4, 8, 16, 32), (2, 4, 8), (2, 4, 8)):
        if 64 <= tx * ty <= 512:
            for buffers, resident, slice_ in itertools.product((1, 2), (0, 1), (16, 32)):
                yield ty * rows, tx * columns, tx * ty, (f"buffers={buffers} d_slice={slice_} prefetch=1 "
                                                         f"resident={resident} row_slice=16 tx={tx}")


def cpu():
    for b_r, b_c, micro, vectors, width in itertools.product((32, 64, 128, 256), (16, 32, 64, 128), (2, 3, 4, 6, 8, 16),
                                                             (1, 2, 3, 4), (8, 16)):
        if b_r % (vectors * width) == 0 and b_c % micro == 0:
            yield b_r, b_c, 1, f"dot=0 fetch=1 micro={micro} row_vectors={vectors} vector_width={width}"


KERNELS = {"forward_matrix": (0, FP16, forward_matrix), "backward_matrix": (1, FP16, backward_matrix),
           "forward_simt": (0, FP32, simt), "backward_simt": (1, FP32, simt), "forward_cpu": (0, FP32, cpu)}


class Worker:
    def __init__(self, clattn, device):
        platform, number = map(int, device.split(":"))
        self.process = subprocess.Popen([clattn, "tune", "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.tell({"op": "open", "given": True, "platform": platform, "device": number, "memory": 32 << 30})
        self.hear()

    def tell(self, request):
        print(json.dumps(request), file=self.process.stdin, flush=True)

    def hear(self, seconds=120.0):
        watch = threading.Timer(seconds, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        return json.loads(line) if line else {"error": "the process has ended"}

    def end(self):
        self.process.kill()
        self.process.wait()


def request_of(kernel, shape, candidate, cpu_device):
    way, dtype, _ = KERNELS[kernel]
    (d, causal, n), (b_r, b_c, group, knobs) = shape, candidate
    batch, heads = (1, 4) if cpu_device else (max(1, 16384 // n), max(1, 2048 // d))
    return {"op": "measure", "pass": way, "dtype": dtype, "d": d, "d_v": d, "causal": bool(causal), "batch": batch,
            "heads": heads, "kv_heads": heads, "n_q": n, "n_kv": n, "first": True, "runs": 3, "limit": 0.0,
            "candidate": {"skeleton": kernel, "b_r": b_r, "b_c": b_c, "work_group_size": group, "knobs": knobs}}


def measure(worker, request, middle, seconds):
    worker.tell(request)
    answer = worker.hear(seconds)
    return answer, middle(answer["ms"]) if answer.get("state") == 0 and answer.get("ms") else None


def write(path, rows):
    """Whole, or as it was: this process may be ended at any time."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(rows, file)
    os.replace(path + ".new", path)


def build_ahead(clattn, device, count, requests):
    """Starts processes that compile, each every count-th of the requests, in order."""
    builders = [Worker(clattn, device) for _ in range(count)]
    for number, request in enumerate(requests):
        builders[number % count].tell(dict(request, op="build"))
    return builders


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clattn")
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("--device", default="0:0")
    parser.add_argument("--cpu", action="store_true", help="problems of a few milliseconds, and the fastest run of each")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--builders", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--each", type=int, default=4, help="candidates of a shape in a round")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="the first so many alone")
    parser.add_argument("--most", type=float, default=30, help="seconds for one, compiled and verified")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    draw = random.Random(options.seed)
    everything = list(KERNELS[options.kernel][2]())
    shapes = [(d, causal, n // 16 if options.cpu else n) for d, causal, n in SHAPES[:options.shapes]]
    requests = [request_of(options.kernel, shape, candidate, options.cpu) for _ in range(options.rounds) for shape in shapes
                for candidate in draw.sample(everything, options.each)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that builders end with this process
    builders = build_ahead(options.clattn, options.device, options.builders, requests) if options.builders else []
    worker, rows, refused = Worker(options.clattn, options.device), [], 0
    try:
        for request in requests:
            if time.monotonic() > end:
                break
            answer, ms = measure(worker, request, min if options.cpu else statistics.median, options.most)
            if ms is None:
                refused += 1
                if answer.get("state") not in (0, 2):
                    print(answer.get("text", answer.get("error")), request["candidate"], flush=True)
                if answer.get("error") == "the process has ended" or answer.get("broken"):
                    worker.end()
                    worker = Worker(options.clattn, options.device)
                continue
            row = {key: request[key] for key in ("pass", "dtype", "d", "causal", "batch", "heads")}
            rows.append({**row, "n": request["n_q"], **request["candidate"], "ms": round(ms, 6)})
            write(options.json, rows)
    finally:
        for process in [worker, *builders]:
            process.end()
    print(f"{options.kernel}: {len(rows)} measured, {refused} refused, of {len(requests)}")


main()
