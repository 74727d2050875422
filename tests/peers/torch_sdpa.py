#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Times clattn and PyTorch's scaled_dot_product_attention beside each other, on random normal numbers, and prints the ratios.

Both take turns: each round runs `clattn bench` for the cells of one shape, then PyTorch for the same cells; a cell's time is
the median over the rounds. clattn's times are the device's own (OpenCL events), PyTorch's those of CUDA events or, on a CPU,
of the clock on the wall, with as many threads as the OpenCL device has compute units. A backward time is that of
torch.autograd.grad on a graph that is kept. FLOPs: 4 batch heads n n d, half if causal, 2.5 times that for a backward pass.
A ratio above 1 says that clattn is faster.

    torch_sdpa.py --torch cpu --n 1024,2048,4096 --d 64,128 --causal both --pass both
    torch_sdpa.py --torch cuda --grid flash --dtype fp16,bf16 --pass both --verify --json rows.json

Exit status: 0 success (cells that one of the two cannot run are named), 1 `clattn verify` failed, 2 usage or PyTorch missing,
4 no device, or clattn ran no cell.
"""
import argparse
import datetime
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
DEFAULT_BACKENDS = {"cpu": ["flash"], "cuda": ["flash", "cudnn", "efficient"]}  # a CPU has one fused kernel
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
MASKS = {"full": [False], "causal": [True], "both": [False, True]}
PASSES = {"forward": ["forward"], "backward": ["backward"], "both": ["forward", "backward"]}
BENCH_DROPOUT_P = 0.1  # what `clattn bench --feature dropout` drops
DEVICE_TYPES = {"cpu": "CPU", "cuda": "GPU"}


def stop(status, text):
    print("torch_sdpa.py: " + text, file=sys.stderr)
    sys.exit(status)


def import_torch():
    try:
        import torch
        import torch.nn.attention
    except ImportError as error:
        stop(2, "PyTorch is needed (pip install torch, 2.3 or later), which this Python has not: %s" % error)
    return torch


def numbers(text):
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise ValueError
    return values


def words(known):
    def parse(text):
        unknown = [part for part in text.split(",") if part not in known]
        if unknown:
            raise argparse.ArgumentTypeError("'%s': must be of %s" % (unknown[0], ", ".join(known)))
        return text.split(",")
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clattn", metavar="PATH", default="clattn", help="the command (default: the one in PATH)")
    parser.add_argument("--device", metavar="P:D", help="clattn's device (default: the first CPU or GPU, as --torch says)")
    parser.add_argument("--torch", choices=["cpu", "cuda"], help="PyTorch's device (default: cuda if there is one)")
    parser.add_argument("--grid", choices=["flash"], help="FlashAttention's shapes: on CUDA 16384 tokens and a hidden size "
                        "of 2048, n 512 to 16384; on a CPU 8 heads, n 512 to 8192; --n and --d select from it")
    parser.add_argument("--n", metavar="N,...", type=numbers, help="lengths (default: 1024)")
    parser.add_argument("--d", metavar="N,...", type=numbers, help="head dimensions (default: 64; of a grid 64,128)")
    parser.add_argument("--heads", metavar="N,...", type=numbers, help="default: 8")
    parser.add_argument("--batch", metavar="N,...", type=numbers, help="default: 1")
    parser.add_argument("--causal", choices=list(MASKS), default="full")
    parser.add_argument("--dtype", metavar="TYPE,...", type=words(DTYPES), default=["fp32"], help="fp32, fp16, bf16")
    parser.add_argument("--pass", dest="passes", choices=list(PASSES), default="forward")
    parser.add_argument("--backends", metavar="NAME,...", type=words(BACKENDS), help="of %s" % ", ".join(BACKENDS))
    parser.add_argument("--skeleton", metavar="NAME", help="clattn's kernel (of one pass)")
    parser.add_argument("--dropout", action="store_true", help="a tenth of the weights is dropped, by both")
    parser.add_argument("--rounds", metavar="N", type=int, default=3)
    parser.add_argument("--repetitions", metavar="N", type=int, help="of each cell in each round, for both (default: as many "
                        "as take about a second, 3 to 15)")
    parser.add_argument("--unordered", action="store_true", help="clattn may add up dQ in any order, as its peers do")
    parser.add_argument("--verify", action="store_true", help="run `clattn verify --quick` first, and stop if it fails")
    parser.add_argument("--commit", help="what to write down as clattn's commit (default: that of this file's repository)")
    parser.add_argument("--json", metavar="FILE", help="write the device, versions, command and cells there")
    arguments = parser.parse_args()
    if arguments.grid and (arguments.heads or arguments.batch):
        parser.error("--grid has its own --heads and --batch")
    if arguments.rounds < 1 or (arguments.repetitions or 1) < 1:
        parser.error("--rounds and --repetitions: at least 1")
    return arguments


def command(arguments, *more):
    """clattn's output and errors; its exit status is the caller's business."""
    try:
        return subprocess.run([arguments.clattn, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        stop(4, "--clattn %s: %s" % (arguments.clattn, error.strerror))


def choose_device(arguments):
    result = command(arguments, "devices", "--json")
    if result.returncode:
        stop(4, result.stderr.strip())
    devices, wanted = json.loads(result.stdout), DEVICE_TYPES[arguments.torch]
    if arguments.device:
        found = [device for device in devices if device["device"] == arguments.device]
    else:
        found = [device for device in devices if device["type"] == wanted]
    if not found:
        stop(4, "no OpenCL device %s: `clattn devices` lists what there is" % (arguments.device or "of type " + wanted))
    if found[0]["type"] != wanted:
        print("note: clattn runs on a %s, PyTorch on a %s" % (found[0]["type"], wanted), file=sys.stderr)
    return found[0]


def shapes(arguments):
    """(batch, heads, n, d) of each group of cells."""
    if not arguments.grid:
        return list(itertools.product(arguments.batch or [1], arguments.heads or [8], arguments.n or [1024],
                                      arguments.d or [64]))
    cpu, picked = arguments.torch == "cpu", []
    for d, power in itertools.product(arguments.d or [64, 128], range(9, 14 if cpu else 15)):
        n = 1 << power
        if not arguments.n or n in arguments.n:
            picked.append((1, 8, n, d) if cpu else (16384 // n, max(1, 2048 // d), n, d))
    if not picked:
        stop(2, "nothing to measure: the grid has n 512 to %d in powers of 2" % (8192 if cpu else 16384))
    return picked


def flops(cell):
    pairs = cell["batch"] * cell["heads"] * cell["n"] ** 2 * (0.5 if cell["causal"] else 1.0)
    return 4.0 * pairs * cell["d"] * (2.5 if cell["pass"] == "backward" else 1.0)


def make_cells(arguments, shape):
    batch, heads, n, d = shape
    return [{"batch": batch, "heads": heads, "n": n, "d": d, "dtype": dtype, "causal": causal, "pass": which, "problems": {},
             "times": {}}
            for dtype, causal, which in itertools.product(arguments.dtype, MASKS[arguments.causal], PASSES[arguments.passes])]


def clattn_round(arguments, device, shape, cells):
    """One run of the command for all cells of a shape."""
    batch, heads, n, d = shape
    words_ = ["bench", "--device", device["device"], "--batch", batch, "--heads", heads, "--n", n, "--d", d, "--dtype",
              ",".join(arguments.dtype), "--causal=" + {"full": "off", "causal": "on", "both": "both"}[arguments.causal],
              "--pass", arguments.passes, "--no-standard", "--quiet", "--json"]
    words_ += ["--unordered"] if arguments.unordered else []
    words_ += ["--skeleton", arguments.skeleton] if arguments.skeleton else []
    words_ += ["--feature", "dropout"] if arguments.dropout else []
    words_ += ["--repetitions", arguments.repetitions] if arguments.repetitions else []
    result = command(arguments, *map(str, words_))
    try:
        rows = json.loads(result.stdout) if result.stdout.strip() else []
    except ValueError:
        rows = []
    if not rows and not result.stderr.strip():
        result.stderr = "exit status %d" % result.returncode
    for cell in cells:
        row = [row for row in rows if all(row[key] == cell[key] for key in ("dtype", "causal", "pass"))]
        if row and row[0]["median_ms"]:
            cell["times"].setdefault("clattn", []).append(row[0]["median_ms"])
            cell["path"] = row[0]["path"]
            cell.setdefault("share_of_peak", []).append(row[0]["share_of_peak"] or 0.0)
        else:
            said = row[0]["problem"] if row else result.stderr.strip()
            cell["problems"]["clattn"] = (said or "no time came back").replace("\n", "; ")


class Peer:
    """PyTorch on one device."""

    def __init__(self, torch, arguments, device):
        self.torch, self.cuda, self.repetitions = torch, arguments.torch == "cuda", arguments.repetitions
        self.dropout_p = BENCH_DROPOUT_P if arguments.dropout else 0.0
        torch.manual_seed(0)
        if not self.cuda:
            torch.set_num_threads(device["compute_units"])
        elif not torch.cuda.is_available():
            stop(4, "--torch cuda: this PyTorch finds no CUDA device")
        elif torch.cuda.get_device_name() not in device["name"] and device["name"] not in torch.cuda.get_device_name():
            print("note: clattn runs on %s, PyTorch on %s" % (device["name"], torch.cuda.get_device_name()), file=sys.stderr)

    def once_ms(self, work):
        if not self.cuda:
            start = time.perf_counter()
            work()
            return (time.perf_counter() - start) * 1e3
        start, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def median_ms(self, work):
        work()
        warm = min(self.once_ms(work) for _ in range(2))
        repetitions = self.repetitions or max(3, min(15, int(1000.0 / max(warm, 1e-3))))
        return statistics.median(self.once_ms(work) for _ in range(repetitions))

    def measure(self, cell, backend):
        torch, backward = self.torch, cell["pass"] == "backward"
        attention = torch.nn.functional.scaled_dot_product_attention
        q, k, v, grad = (torch.randn(cell["batch"], cell["heads"], cell["n"], cell["d"], device="cuda" if self.cuda else "cpu",
                                     dtype=getattr(torch, DTYPES[cell["dtype"]])) for _ in range(4))
        with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, BACKENDS[backend])):
            if not backward:
                with torch.no_grad():
                    return self.median_ms(lambda: attention(q, k, v, is_causal=cell["causal"], dropout_p=self.dropout_p))
            for tensor in (q, k, v):
                tensor.requires_grad_(True)
            out = attention(q, k, v, is_causal=cell["causal"], dropout_p=self.dropout_p)
            return self.median_ms(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))

    def round(self, cells, backends):
        for cell, backend in itertools.product(cells, backends):
            if backend in cell["problems"]:
                continue  # what it cannot run it could not in the first round
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    cell["times"].setdefault(backend, []).append(self.measure(cell, backend))
                except (RuntimeError, TypeError) as error:  # out of memory is a RuntimeError too
                    reasons = [str(warning.message).split(" (Triggered")[0] for warning in caught]
                    cell["problems"][backend] = " ".join([str(error).splitlines()[0], *reasons])
        if self.cuda:
            self.torch.cuda.empty_cache()  # the other process needs memory too


def tflops(cell, name):
    times = cell["times"].get(name)
    return flops(cell) / statistics.median(times) * 1e-9 if times else None


def ratio(cell, name):
    ours, theirs = tflops(cell, "clattn"), tflops(cell, name)
    return ours / theirs if ours and theirs else None


def title(cell):
    return "%-5s %5d %5d %6d %4d %-6s %-8s" % (cell["dtype"], cell["batch"], cell["heads"], cell["n"], cell["d"],
                                                "yes" if cell["causal"] else "no", cell["pass"])


def print_head(backends):
    print("%-5s %5s %5s %6s %4s %-6s %-8s %10s" % ("dtype", "batch", "heads", "n", "d", "causal", "pass", "clattn") +
          "".join("  %10s %6s" % (name, "ratio") for name in backends) + "  (TFLOP/s)")


def print_cell(cell, backends):
    def figure(value, form):
        return form % value if value is not None else "-"
    line = title(cell) + " %10s" % figure(tflops(cell, "clattn"), "%.4f")
    for name in backends:
        line += "  %10s %6s" % (figure(tflops(cell, name), "%.4f"), figure(ratio(cell, name), "%.2f"))
    print(line, flush=True)
    for name, problem in cell["problems"].items():
        print("      %s: %s" % (name, problem), flush=True)


def summaries(cells, backends):
    """Of each pass, type and peer: in how many cells both ran, the geometric mean of the ratios and the lowest."""
    rows = []
    groups = sorted({(cell["pass"], cell["dtype"]) for cell in cells}, reverse=True)
    for (which, dtype), name in itertools.product(groups, backends):
        ratios = [ratio(cell, name) for cell in cells if (cell["pass"], cell["dtype"]) == (which, dtype)]
        ratios = [value for value in ratios if value]
        if ratios:
            rows.append({"pass": which, "dtype": dtype, "peer": name, "cells": len(ratios),
                         "geometric_mean": statistics.geometric_mean(ratios), "lowest": min(ratios)})
    return rows


def commit_of(arguments):
    if arguments.commit:
        return arguments.commit
    result = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always", "--dirty",
                             "--abbrev=40", "--exclude=*"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False)
    return result.stdout.strip() or None


def report(arguments, torch, device, cells, backends):
    peer = torch.cuda.get_device_name() if arguments.torch == "cuda" else torch.backends.cpu.get_cpu_capability()
    for cell in cells:
        cell["tflops"] = {name: tflops(cell, name) for name in ["clattn", *backends]}
        cell["ratios"] = {name: ratio(cell, name) for name in backends}
        cell["median_ms"] = {name: statistics.median(times) for name, times in cell["times"].items()}
        if "share_of_peak" in cell:
            cell["share_of_peak"] = statistics.median(cell["share_of_peak"])
    return {"device": device["name"], "driver": device["driver"], "compute_units": device["compute_units"],
            "torch": torch.__version__, "torch_device": peer, "torch_threads": torch.get_num_threads(),
            "date": datetime.date.today().isoformat(), "commit": arguments.commit,
            "command": " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:]]), "rounds": arguments.rounds,
            "summaries": summaries(cells, backends), "cells": cells}


def main():
    arguments = parse_arguments()
    torch = import_torch()
    arguments.torch = arguments.torch or ("cuda" if torch.cuda.is_available() else "cpu")
    backends = arguments.backends or DEFAULT_BACKENDS[arguments.torch]
    device = choose_device(arguments)
    peer = Peer(torch, arguments, device)
    groups = shapes(arguments)
    arguments.commit = commit_of(arguments)  # now: it may be another one at the end
    if arguments.verify:
        result = command(arguments, "verify", "--quick", "--quiet", "--device", device["device"])
        if result.returncode:
            stop(1, "clattn verify --quick failed:\n" + result.stdout + result.stderr)
        print(result.stdout.strip())
    print("clattn on %s, driver %s; PyTorch %s, %s; medians of %d rounds in turns"
          % (device["name"], device["driver"], torch.__version__,
             torch.cuda.get_device_name() if peer.cuda else "%d threads" % torch.get_num_threads(), arguments.rounds))
    print_head(backends)
    cells = []
    for shape in groups:
        group = make_cells(arguments, shape)
        for _ in range(arguments.rounds):
            clattn_round(arguments, device, shape, group)
            peer.round(group, backends)
        for cell in group:
            print_cell(cell, backends)
        cells += group
    for row in summaries(cells, backends):
        print("%(pass)s, %(dtype)s: %(geometric_mean).2f times %(peer)s in the geometric mean of %(cells)d cells, %(lowest).2f in "
              "the lowest" % row)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report(arguments, torch, device, cells, backends), file, indent=1)
            file.write("\n")
    if not any(cell["times"].get("clattn") for cell in cells):
        sys.exit(4)


main()
