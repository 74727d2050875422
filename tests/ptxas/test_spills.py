#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the matrix kernels for NVIDIA's devices without one, and fails where the assembler takes registers to memory, or
makes products by warp groups wait for each other, unless that is known; or where a kernel has not, to the byte, the local
memory that was planned.

    test_spills.py KERNEL_TEXTS BUILTINS [--list | --nvvm]

--nvvm lists what comes of NVIDIA's own optimiser instead (nvvm.py), and judges nothing.

Needs clang 19 or newer that knows NVPTX (Debian's does; $CLANG names another) and NVIDIA's ptxas ($PTXAS, on the path, in
/usr/local/cuda, or from the Python package nvidia-cuda-nvcc); exit status 77, which Meson calls skipped, without them.
The driver's own compiler has another mind about registers than clang: what is good here may still spill there.
"""
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import nvvm

# What a kernel without local memory is planned with.
LEAST_LOCAL = 16

# The list is true from this version on; 14 spills several times as much.
OLDEST_CLANG = 19

MANY = "of several features at once; a forward pass's is the producer's, which has 32 or 40 registers, for the most part"

# Bytes that may be stored to memory, by the beginning of the kernel's name, with the reason. The first that fits counts.
ALL_IN_USE = "all 255 registers of an item are in use, and a few addresses go to memory"
SCORES_STAY = "outputs, scores and weights are 224 of 255 registers, as scores stay until it is known whether bounds hold, which is faster"
ADDRESSES = "clang keeps addresses for which NVIDIA's own optimiser (--nvvm) needs few registers: it spills 0 to 104 bytes of these"
NONE_OF_NVIDIAS = "NVIDIA's own optimiser (--nvvm) spills none of it"
KNOWN = (
    ("sm_90-forward_simt-clattn_forward-d64", 1080, ADDRESSES),
    ("sm_90-forward_simt-clattn_forward-d128", 436, ADDRESSES),
    ("sm_90-backward_simt-clattn_dk_dv", 868, ADDRESSES),
    ("sm_90-backward_simt-clattn_dq-d128", 456, ADDRESSES),
    ("sm_90-backward_simt-clattn_dq", 784, ADDRESSES),
    ("sm_75-forward_matrix-clattn_forward-d64-128x64", 48, NONE_OF_NVIDIAS),
    ("sm_75-forward_matrix-clattn_forward-d128-64x32", 16, NONE_OF_NVIDIAS),
    ("sm_75-backward_matrix-clattn_dk_dv-d64", 96, ALL_IN_USE),
    *((f"sm_{sm}-forward_matrix-clattn_forward-d64-128x64-", 64, ALL_IN_USE) for sm in (80, 86, 89, 90)),
    ("sm_86-forward_matrix-clattn_forward-d128-128x32-f512", 24, "dropout's words of 512 keys are found at once"),
    ("sm_80-forward_matrix-clattn_forward-d128-128x64-causal-f", 224, "as below"),
    ("sm_80-forward_matrix-clattn_forward-d128-128x64-f512", 300, "as below, and dropout's words"),
    ("sm_80-forward_matrix-clattn_forward-d128-128x64-f2", 192, "as below, and the curve's numbers"),
    ("sm_80-forward_matrix-clattn_forward-d128-128x64-f", 112, SCORES_STAY),
    ("sm_90-forward_matrix-clattn_forward-d128-128x64-causal-f", 448, "as below, and what a split has of its own"),
    ("sm_90-forward_matrix-clattn_forward-d128-128x64-f512", 380, "as below, and dropout's words"),
    ("sm_90-forward_matrix-clattn_forward-d128-128x64-f2", 400, "as below, and the curve's numbers"),
    ("sm_90-forward_matrix-clattn_forward-d128-128x64-f", 272, SCORES_STAY),
    *((f"sm_{sm}-forward_matrix-clattn_forward-d{sizes}-causal-f0", 40, f"{ALL_IN_USE}: outputs, scores, and P in two parts")
      for sm in (80, 90) for sizes in ("64-128x32", "128-128x16")),
    ("sm_90-backward_matrix-clattn_dk_dv-d64-128x128-f2", 96, "all 255 registers of an item are in use, and a careful run caps scores one by one"),
    *((f"sm_{sm}-backward_matrix-clattn_{kernel}-fp32", most, f"{ALL_IN_USE}: each product has sums of two kinds beside its operands in two parts")
      for sm in (80, 90) for kernel, most in (("dq-d64-128x64-causal-f0", 128), ("dq-d128-64x64-causal-f0", 88), ("dk_dv-d128-64x64-causal-f0", 52),
                                              ("dk_dv-d64-64x64-causal-f512-unordered", 76), ("dk_dv-d128-64x64-causal-f0-unordered", 132),
                                              ("dk_dv-d128-64x64-causal-f512-unordered", 164))),
    *((f"sm_{sm}-backward_matrix-clattn_dk_dv", 24, ALL_IN_USE) for sm in (75, 80, 86, 89, 90)),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-causal-f2", 96, "hidden pairs are told apart on each of the ways that scores are capped"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-causal-f0", 88, "hidden pairs are told apart on both ways to weights"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-causal-f4", 64, "tiles before the diagonal and on it take their penalties in two ways"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x176-causal-f0", 160, "scores, weights and outputs are 196 of a consumer's 232 registers"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-f2", 72, "scores stay in registers until their weights are confirmed"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-f512", 56, "scores stay in registers until their weights are confirmed"),
    ("sm_90-forward_hopper-clattn_forward-d64-192x128-causal-f8", 120, "as without hidden pairs"),
    ("sm_90-forward_hopper-clattn_forward-d64-192x128-f8", 96,
     "three consumers have 160 registers each; elements of a bias that cannot be read in words need addresses of their own"),
    ("sm_90-forward_hopper-clattn_forward-d64-256x64-f512", 272, "as below; four consumers have 112 registers each"),
    ("sm_90-forward_hopper-clattn_forward-d64-192x128-causal-f512", 480, "as below, and hidden pairs are told apart on each way to weights"),
    ("sm_90-forward_hopper-clattn_forward-d64-192x128-f512", 320,
     "three consumers have 160 registers each; scores stay in them until their weights are confirmed, and a call of Philox from tile to tile"),
    ("sm_90-forward_hopper-clattn_forward-d64-64x64-f32", 420,
     "four consumers' producer has 32 registers: those of inputs that do not come by boxes, and of its look for tiles"),
    ("sm_90-forward_hopper-clattn_forward-d64-128x64-f32", 452, "as above"),
    ("sm_90-forward_hopper-clattn_forward-d64-256x64-f32", 456, "as above, of tiles that meet several blocks"),
    ("sm_90-forward_hopper-clattn_forward-d128-64x64-f32", 324, "as at d 64, with 40"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-f32-blocks64", 344, "as above, of tiles that meet several blocks"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-f32", 96, "as above, with 40"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-f1", 96, "hidden pairs are told apart at either end of a row's keys"),
    ("sm_90-forward_hopper-clattn_forward-d128-128x128-f0-user", 80, "scores stay in registers until their weights are confirmed"),
    ("sm_90-backward_hopper-clattn_dk_dv-d64-64x128-f32-blocks64", 240, "as below, and whose half of the keys sees a tile"),
    ("sm_90-backward_hopper-clattn_dk_dv-d128-64x128-f32-blocks64", 784, "as below, and whose half of the keys sees a tile"),
    ("sm_90-backward_hopper-clattn_dk_dv-d64-64x128-f32", 176, "as below, and a mask's blocks"),
    ("sm_90-backward_hopper-clattn_dk_dv-d128-64x128-f32", 720, "as below, and a mask's blocks"),
    ("sm_90-backward_hopper-clattn_dk_dv-d64-64x128-f512", 160, "as below, and a tile's calls"),
    ("sm_90-backward_hopper-clattn_dk_dv-d64-64x128-f4", 152, "as below, and what is told of the slope"),
    *((f"sm_90-backward_hopper-clattn_dk_dv-d64-64x128-{kind}", 300,
       "lse and delta, read ahead, are 48 of a consumer's 216 registers; NVIDIA's own optimiser (--nvvm) spills 0 and 8 bytes")
      for kind in ("causal-f0", "f1")),
    ("sm_90-backward_hopper-clattn_dk_dv-d64", 208,
     "the producer has 72 registers, and to an input that is not whole, or to the tail of one, it does not come by boxes"),
    ("sm_90-backward_hopper-clattn_dk_dv-d128-64x128-f2", 896, "as below, four times: near and far from the cap, with hidden pairs and without"),
    ("sm_90-backward_hopper-clattn_dk_dv-d128", 824,
     "a consumer's results, scores and their gradients are 192 of its 232 or 240 registers; the producer has 24 or 40, else as for d 64"),
    ("sm_90-backward_hopper-clattn_dk_dv-d256", 512,
     "a consumer's results, scores and part of dQ are 192 of its 232 registers; the producer has 40, else as for d 64"),
    ("sm_90-backward_hopper-clattn_dk_dv_again-d128", 40, ALL_IN_USE),
    *((f"sm_90-backward_hopper-{name}", 24, ALL_IN_USE) for name in ("clattn_dq", "clattn_d_bias", "clattn_dk_dv_again")),
    *((f"sm_{sm}-backward_fused-clattn_dk_dv_again", 24, ALL_IN_USE) for sm in (80, 90)),
    ("sm_80-backward_fused-clattn_dk_dv-d64-64x64-causal-f8", 360, "as for 128 keys, below"),
    ("sm_90-backward_fused-clattn_dk_dv-d64-64x64-causal-f8", 112, "as for 128 keys, below"),
    *((f"sm_{sm}-backward_fused-clattn_dk_dv-d{d}-64x64-causal-f{features}", most, f"as below, {what}") for sm in (80, 90)
      for d, features, most, what in ((64, 40, 480, "a bias's strides, and of a mask what lies ahead"), (64, 512, 216, "and what a call of Philox gave"),
                                      (64, 544, 300, "what a call of Philox gave, and of a mask what lies ahead"), (128, 544, 232, "likewise"),
                                      (64, 3, 152, "and of a mask what lies ahead"))),
    ("sm_80-backward_fused-clattn_dk_dv-d64-64x128-causal-f8", 304, "as below, and a bias's strides"),
    ("sm_90-backward_fused-clattn_dk_dv-d128-64x128-causal-f8", 112, "as for d 64, and a bias's strides"),
    *((f"sm_{sm}-backward_fused-clattn_dk_dv-d64-64x128-causal-f512", 208, "as below, and what a call of Philox gave") for sm in (80, 86, 89, 90)),
    *((f"sm_{sm}-backward_fused-clattn_dk_dv-d64", 96,
       "a warp's results, scores and their gradients are 192 of 255 registers; what a head has for all its tiles goes to memory")
      for sm in (80, 86, 89, 90)),
    *((f"sm_{sm}-backward_fused-clattn_dk_dv-d128", 96, "as for d 64") for sm in (80, 90)),
    ("sm_90-forward_hopper-clattn_forward-d64-64x64-f1", 224,
     "four consumers have 112 registers each, and hidden pairs are told apart at either end of a row's keys"),
    ("sm_90-forward_hopper-clattn_forward-d64", 64, "three consumers have 160 registers each, four 112"),
    ("sm_90-forward_hopper-clattn_forward-d256", 224, "scores, weights and outputs are 188 of a consumer's 232 registers"),
    ("sm_90-forward_hopper-clattn_forward-d128", 52, "scores, weights and outputs are 160 of a consumer's 232 registers"),
)


def find_clang():
    for name in (os.environ.get("CLANG"), *(f"clang-{n}" for n in range(29, OLDEST_CLANG - 1, -1)), "clang"):
        path = name and shutil.which(name)
        if not path:
            continue
        version = re.search(r"version (\d+)", subprocess.run([path, "--version"], capture_output=True, text=True).stdout)
        targets = subprocess.run([path, "--print-targets"], capture_output=True, text=True).stdout
        if "nvptx64" in targets and version and int(version[1]) >= OLDEST_CLANG:
            return path
    return None


def find_ptxas():
    packaged = []
    for folder in sys.path:
        packaged += pathlib.Path(folder or ".").glob("nvidia/*/bin/ptxas")
    for name in (os.environ.get("PTXAS"), "ptxas", "/usr/local/cuda/bin/ptxas", *packaged):
        path = name and shutil.which(str(name))
        if path:
            return path
    return None


def checked(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return done.stdout + done.stderr


def retarget(ptx, sm, group, hopper):
    """For this device; local arrays, which may be larger than the 48 KB of static ones, without a size; what clang leaves out
    of the work-group's size. For Hopper also what src/plan/retarget.c does: no marks, the target with warp groups."""
    declared = []

    def take(match):
        declared.append(".extern .shared .align {0} .b{1} {2}[];\n".format(*match.groups()))
        return ""
    ptx = re.sub(r"^\.version .*$", ".version 8.3", ptx, count=1, flags=re.M)
    ptx = re.sub(r"^\.target .*$", f".target sm_{sm}{'a' if hopper else ''}", ptx, count=1, flags=re.M)
    ptx = re.sub(r"\.shared \.align (\d+) \.b(\d+) ([\w$]+)\[\d+\];", take, ptx)
    at = re.search(r"^(\.visible )?\.entry", ptx, flags=re.M).start()
    body = ptx.index("\n{", at)
    size = "" if ".reqntid" in ptx[at:body] else f"\n.reqntid {group}"
    if hopper and "setmaxnreg" in ptx:
        size += "\n.minnctapersm 1"
    return (ptx[:at] + "".join(declared) + ptx[at:body] + size + ptx[body:]).replace("//@", "" if hopper else "//@")


def by_clang(clang, base, builtins, _sm):
    checked([clang, *nvvm.FRONT_END, "-O3", "-include", builtins, base + ".cl", "-o", base + ".ptx"])
    return pathlib.Path(base + ".ptx").read_text()


def by_nvvm(clang, library, base, builtins, sm):
    return nvvm.compile_text(clang, library, base + ".cl", builtins, sm)


def compile_one(make_ptx, ptxas, builtins, folder, line):
    """The bytes that are spilled, and what else the assembler has to say."""
    name, sm, group, hopper, planned = line.split()
    base = str(folder / name)
    ptx = make_ptx(base, builtins, sm)
    declared = sum(int(n) for n in re.findall(r"\.shared \.align \d+ \.b8 [\w$]+\[(\d+)\];", ptx))
    unused = not declared and int(planned) == LEAST_LOCAL  # which the compiler leaves out
    if int(planned) and declared != int(planned) and not unused:
        raise RuntimeError(f"{name}: {declared} bytes of local memory, of which {planned} were planned")
    pathlib.Path(base + ".for.ptx").write_text(retarget(ptx, sm, group, hopper == "1"))
    said = checked([ptxas, "-v", f"-arch=sm_{sm}{'a' if hopper == '1' else ''}", base + ".for.ptx", "-o", base + ".cubin"])
    stores = [int(n) for n in re.findall(r"(\d+) bytes spill stores", said)]
    if not stores:
        raise RuntimeError(f"{name}: ptxas says nothing of spills: {said}")
    return name, sum(stores), re.findall(r"\(C75\d+\)[^\n]*", said), int(re.search(r"Used (\d+) registers", said)[1])


def allowed(name):
    features = re.search(r"-f(\d+)", name)
    if "_hopper-" in name and bin(int(features[1]) if features else 0).count("1") > 2:
        return (720 if "forward_hopper" in name else 4500 if "-d128-" in name else 1600), MANY
    return next(((most, reason) for start, most, reason in KNOWN if name.startswith(start)), (0, "none is known"))


def find_compiler(of_nvidia):
    """What makes PTX of a text, or None, and what is missing then."""
    if not of_nvidia:
        clang = find_clang()
        return clang and functools.partial(by_clang, clang), f"clang {OLDEST_CLANG} with NVPTX"
    clang, library = nvvm.find_clang(), nvvm.find_library()
    return clang and library and functools.partial(by_nvvm, clang, library), "libnvvm" if clang else "clang 13 or 14"


def main():
    of_nvidia = "--nvvm" in sys.argv
    (make_ptx, missing), ptxas = find_compiler(of_nvidia), find_ptxas()
    if not make_ptx or not ptxas:
        print(f"skipped: there is no {'ptxas' if make_ptx else missing}")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = checked([sys.argv[1], folder]).splitlines()
        for name, bytes_, serial, registers in pool.map(
                lambda line: compile_one(make_ptx, ptxas, sys.argv[2], pathlib.Path(folder), line), lines):
            if of_nvidia:
                print(f"{name}: {registers} registers, {bytes_} bytes spilled {' '.join(serial)}")
                continue
            most, reason = allowed(name)
            bad = bytes_ > most or bool(serial)
            failures += bad
            if bad or "--list" in sys.argv:
                print(f"{name}: {registers} registers, {bytes_} bytes spilled, {most} known ({reason}) {' '.join(serial)}")
    if not of_nvidia:
        print(f"{len(lines)} kernels, {failures} with more spills than are known, or with products that wait")
    return int(failures > 0 or not lines)


if __name__ == "__main__":
    sys.exit(main())
