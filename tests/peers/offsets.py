#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Judges clattn's gradients beside PyTorch's where a row's scores share a large offset, or one key has nearly all the weight.

Each case is computed three times: by `clattn run`, by PyTorch's operations in --dtype on the CPU (its math path), and by the same
operations in float64. An error is the largest difference from float64; a ratio is clattn's error over PyTorch's, which counts as
at least one rounding of the tensor's largest value. Where PyTorch's own values are not finite they say nothing, and the rounding
alone counts. With --orders N PyTorch's error is the root mean square of N, each with head dimensions summed in an order of its
own: what it is expected to be. A tensor whose ratio is at most --limit is right. So is one that FlashAttention's rule allows in whole:
    |dq - dq_ref| <= rtol |dq_pt - dq_ref| + 2 |(dq_ref + 0.3 - 0.3) - dq_ref|      (hopper/test_flash_attn.py; rtol: --limit here)
of which the second term counts where PyTorch's gradient is 0 and the true one nearly so; the case's line then says so.

    offsets.py --clattn build/tools/clattn --dtype fp16 --skeleton forward_simt,backward_simt

Without --skeleton the library chooses. Needs PyTorch and NumPy.

Exit status: 0 success, 1 a case is bad, 2 usage or PyTorch missing, 4 clattn failed.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

from judged import LEAST, TYPES, load, np, save, stop, torch

OFFSETS = (0.0, 1.0, -1.0, 1e4, -1e4, -65504.0, 1e6, -1e6, 1e9, -1e9, 1e30, -1e30, 3e38, -3e38)
SCALES = (1e-3, 0.2, 1.0, 30.0, 1e3, 1e6)
OUTPUTS = {"o": "out", "dq": "dq", "dk": "dk", "dv": "dv", "dbias": "dbias"}


def draw_cases(dtype, seed):
    """Name, scale and tensors of each case; the tensors' names are those of `clattn run`'s options."""
    random = torch.Generator().manual_seed(seed)

    def normal(rows, columns):
        return torch.randn(1, 1, rows, columns, generator=random).to(dtype)

    tensors = {"q": normal(8, 24), "k": normal(70, 24), "v": normal(70, 24), "grad-out": normal(8, 24)}
    most = torch.finfo(dtype).max
    for offset in sorted({*(x for x in OFFSETS if abs(x) <= most), most, -most}):
        everywhere, padding = torch.full((1, 1, 8, 70), offset, dtype=dtype), normal(8, 70)
        padding[..., 3:] = offset
        yield "offset %g" % offset, 0.2, {**tensors, "bias": everywhere}
        yield "padding %g" % offset, 0.2, {**tensors, "bias": padding}
    for scale in SCALES:
        for spread in (1.0, 4.0):
            yield "scale %g spread %g" % (scale, spread), scale, {**tensors, "q": spread * tensors["q"], "k": spread * tensors["k"]}


def in_order(tensors, order):
    """With head dimensions in order 0 (as they are) or a random one, and how to have outputs as they were."""
    random = torch.Generator().manual_seed(order)
    orders = [torch.randperm(tensors[name].shape[-1], generator=random) if order else None for name in ("q", "v")]
    where = {name: orders[number] for number, names in enumerate((("q", "k"), ("v", "grad-out"))) for name in names}
    mixed = {name: tensor if where.get(name) is None else tensor[..., where[name]] for name, tensor in tensors.items()}
    back = {"dq": orders[0], "dk": orders[0], "dv": orders[1], "o": orders[1]}
    return mixed, {name: None if order is None else torch.argsort(order) for name, order in back.items()}


def run_torch(tensors, scale, dtype, order=0):
    mixed, back = in_order(tensors, order)
    leaves = {name: tensor.to(dtype, copy=True).requires_grad_(name != "grad-out") for name, tensor in mixed.items()}
    scores = (leaves["q"] @ leaves["k"].transpose(2, 3)) * scale
    if "bias" in leaves:
        scores = scores + leaves["bias"]
    o = torch.softmax(scores, 3) @ leaves["v"]
    wanted = [name for name in ("q", "k", "v", "bias") if name in leaves]
    gradients = torch.autograd.grad(o, [leaves[name] for name in wanted], leaves["grad-out"])
    found = {"o": o, **{"d" + name: gradient for name, gradient in zip(wanted, gradients)}}
    found = {name: tensor if back.get(name) is None else tensor[..., back[name]] for name, tensor in found.items()}
    return {name: tensor.detach().double().numpy() for name, tensor in found.items()}


def run_clattn(arguments, cases, folder):
    """The outputs of each case by one process, which makes one context and compiles each kernel once."""
    lines, wanted = [], []
    for number, (_, scale, tensors) in enumerate(cases):
        places = {}
        for name, tensor in tensors.items():
            places["--" + name] = os.path.join(folder, "%d-%s.npy" % (number, name))
            save(places["--" + name], tensor)
        wanted.append({name: os.path.join(folder, "%d-out-%s.npy" % (number, name)) for name in OUTPUTS
                       if name != "dbias" or "bias" in tensors})
        places.update({"--" + OUTPUTS[name]: path for name, path in wanted[-1].items()})
        lines.append(" ".join(["--scale=%r" % scale, *("%s %s" % place for place in places.items())]))
    call = [arguments.clattn, "run", "--quiet", "--dtype=" + arguments.dtype, *arguments.words, "--batch", "-"]
    done = subprocess.run(call, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode:
        stop(4, "%s\n%s" % (" ".join(call), done.stderr))
    return [{name: load(path) for name, path in outputs.items()} for outputs in wanted]


def error_of(values, truth):
    return float(np.abs(values - truth).max())


def error_of_peers(peers, truth):
    """Their root mean square (hypot squares nothing that is too small for it); 0 where values are not finite."""
    errors = [error_of(peer, truth) for peer in peers if np.isfinite(peer).all()]
    return math.hypot(*errors) / math.sqrt(len(errors)) if errors else 0.0


def ratio_of(ours, peers, truth, least):
    """Infinite where a value of ours is not finite."""
    rounding = least * float(np.abs(truth).max()) or sys.float_info.min
    ratio = error_of(ours, truth) / max(error_of_peers(peers, truth), rounding)
    return math.inf if math.isnan(ratio) else ratio


def allowed_by(limit, peers, truth, dtype):
    """The error that FlashAttention's rule allows, with its absolute term."""
    stored = torch.from_numpy(truth).to(dtype)
    noise = float((stored + 0.3 - 0.3 - stored).double().abs().max())
    return limit * error_of_peers(peers, truth) + 2 * noise


def judge(arguments, ours, peers, truth):
    """The tensors that are wrong, and those that are right by the absolute term, each with its ratio."""
    bad, absolute = [], []
    for tensor, values in ours.items():
        runs, exact = [peer[tensor] for peer in peers], truth[tensor]
        ratio = ratio_of(values, runs, exact, LEAST[arguments.dtype])
        if ratio > arguments.limit:
            right = error_of(values, exact) <= allowed_by(arguments.limit, runs, exact, TYPES[arguments.dtype])
            (absolute if right else bad).append("%s %.2f" % (tensor, ratio))
    return bad, absolute


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clattn", metavar="PATH", default="clattn", help="the command (default: the one in PATH)")
    parser.add_argument("--dtype", choices=list(LEAST), default="fp32")
    parser.add_argument("--skeleton", metavar="FORWARD,BACKWARD", help="those of the two passes")
    parser.add_argument("--seed", metavar="N", type=int, default=1)
    parser.add_argument("--case", metavar="WORDS", default="", help="those alone in whose names this is")
    parser.add_argument("--extra", metavar="WORD", action="append", default=[], help="further words for `clattn run`")
    parser.add_argument("--orders", metavar="N", type=int, default=1, help="PyTorch's error is the root mean square of N orders'")
    parser.add_argument("--limit", metavar="RATIO", type=float, default=3.0, help="FlashAttention's, for gradients (default: 3)")
    arguments = parser.parse_args()
    forward, _, backward = (arguments.skeleton or "").partition(",")
    if arguments.skeleton and not (forward and backward):
        parser.error("--skeleton: '%s' is not two names with a comma between them" % arguments.skeleton)
    arguments.words = (["--skeleton=" + forward, "--backward-skeleton=" + backward] if forward else []) + arguments.extra
    return arguments


def main():
    arguments = parse_arguments()
    dtype, verdicts = TYPES[arguments.dtype], []
    cases = [case for case in draw_cases(dtype, arguments.seed) if arguments.case in case[0]]
    with tempfile.TemporaryDirectory() as folder:
        ours = run_clattn(arguments, cases, folder)
    for (name, scale, tensors), found in zip(cases, ours):
        peers = [run_torch(tensors, scale, dtype, order) for order in range(arguments.orders)]
        bad, absolute = judge(arguments, found, peers, run_torch(tensors, scale, torch.float64))
        verdicts.append("bad" if bad else "absolute" if absolute else "ok")
        note = ", by the absolute term: " + ", ".join(absolute) if absolute else ""
        print("%s %s %s%s" % ("bad" if bad else "ok ", name, ", ".join(bad), note), flush=True)
    failures = verdicts.count("bad")
    print("%d cases, %d bad, %d by the absolute term" % (len(verdicts), failures, verdicts.count("absolute")))
    sys.exit(1 if failures else 0)


main()
