#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the kernels that run on any GPU for AMD's and Intel's, as planned for the devices of clinfo dumps, and fails
where registers go to memory beyond what is known, or where an AMD device's SIMD holds one wave alone.

    test_other_spills.py DUMP_TEXTS DUMP_FOLDER [--list] [--all]

AMD's want clang 19 or newer with its AMDGPU back end and libclc's amdgcn--amdhsa.bc; Intel's ocloc ($OCLOC, or on the path;
Debian's package intel-opencl-icd). Exit status 77, which Meson calls skipped, where neither is there. --all compiles every
feature; else what differs most: plain kernels, and dropout with a bias.
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIBCLC = pathlib.Path(os.environ.get("LIBCLC", "/usr/lib/clc/amdgcn--amdhsa.bc"))
INTEL = {"tgl": ("tgllp", ""), "dg2": ("dg2", " -cl-intel-256-GRF-per-thread"), "pvc": ("pvc", " -cl-intel-256-GRF-per-thread")}

# Scalar registers that may go to lanes of vector registers, by the beginning of the name: no memory is touched. CDNA's masks of
# 64 lanes take two of its 102 each, and dropout with a bias has most of them.
SCALARS = (("amd-gfx9", 150), ("amd-gfx1", 80))
# Registers that may go to memory.
KNOWN = {"intel-tgl-backward_simt-clattn_d_bias": 1}
LEAST_WAVES = 2


def amd(text, chip, work):
    out = subprocess.run([os.environ.get("CLANG", "clang-19"), "-x", "cl", "-cl-std=CL1.2", "-O3", "-target", "amdgcn-amd-amdhsa", f"-mcpu={chip}",
                          "-nogpulib", "-Xclang", "-finclude-default-header", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", LIBCLC,
                          "-Rpass-analysis=kernel-resource-usage", "-c", "-o", os.devnull, text], capture_output=True, text=True, cwd=work)
    number = {name: int(value) for name, value in re.findall(r"remark:\s+([\w ]+?)(?: \[[^\]]*\])?: (\d+)", out.stderr)}
    if out.returncode or "VGPRs" not in number:
        return None, [out.stderr[-600:]]
    items = int(re.search(r"^#define CLATTN_WORK_GROUP_SIZE (\d+)", text.read_text(), re.M)[1])
    lanes, local = (64, 65536) if chip.startswith("gfx9") else (32, 131072)
    # As many groups as local memory and registers let a unit of four SIMDs hold.
    waves = min(local // max(number["LDS Size"], 1) * (items // lanes) // 4, number["Occupancy"]) or items // lanes / 4
    faults = []
    if number["VGPRs Spill"] or number["ScratchSize"]:
        faults.append(f"{number['VGPRs Spill']} vector registers spill, {number['ScratchSize']} bytes of scratch")
    allowed = next(most for prefix, most in SCALARS if text.stem.startswith(prefix))
    if number["SGPRs Spill"] > allowed:
        faults.append(f"{number['SGPRs Spill']} scalar registers spill, {allowed} are known")
    if waves < LEAST_WAVES:
        faults.append(f"{waves} waves a SIMD, {LEAST_WAVES} are wanted")
    return (f"VGPRs {number['VGPRs']}, spilled {number['VGPRs Spill']} and {number['SGPRs Spill']} scalars, scratch {number['ScratchSize']}, "
            f"local {number['LDS Size']}, waves a SIMD {waves:g}"), faults


def intel(text, device, work):
    name, options = INTEL[device]
    out = subprocess.run([OCLOC, "compile", "-file", text, "-device", name, "-options", "-cl-std=CL1.2" + options, "-output", text.stem,
                          "-out_dir", work], capture_output=True, text=True, cwd=work)
    said = out.stdout + out.stderr
    if "Build succeeded" not in said:
        return None, [said[-600:]]
    spilled = [int(count) for count in re.findall(r"spilled around (\d+)", said)]
    known = next((most for prefix, most in KNOWN.items() if text.stem.startswith(prefix)), 0)
    # (it says nothing where nothing spills)
    return (re.search(r"SIMD\d+ .*|$", said)[0] or "spilled 0"), [f"{sum(spilled)} registers spill, {known} are known"] if sum(spilled) > known else []


def judged(row, folder):
    text = pathlib.Path(folder) / f"{row}.cl"
    vendor, device = row.split("-")[:2]
    line, faults = (amd if vendor == "amd" else intel)(text, device, folder)
    return row, line, faults


def main():
    global OCLOC
    OCLOC = os.environ.get("OCLOC") or shutil.which("ocloc")
    has_amd = shutil.which(os.environ.get("CLANG", "clang-19")) and LIBCLC.exists()
    if not has_amd and not OCLOC:
        print("neither clang 19 with libclc nor ocloc is here")
        return 77
    dumps = [str(path) for path in sorted(pathlib.Path(sys.argv[2]).glob("*.raw")) if path.name.startswith(("amd-", "intel-"))]
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.argv[1], folder, *dumps], check=True, capture_output=True, text=True)
        rows = [line.split()[0] for line in made.stdout.splitlines()]
        rows = [row for row in rows if "--all" in sys.argv or row.endswith(("-f0", "-f520"))]
        only = [a for a in sys.argv[3:] if not a.startswith("--")]
        rows = [row for row in rows if not only or any(re.search(a, row) for a in only)]
        rows = [row for row in rows if (row.startswith("amd-") and has_amd) or (OCLOC and row.startswith("intel-") and row.split("-")[1] in INTEL)]
        failed = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for row, line, faults in pool.map(lambda row: judged(row, folder), rows):
                failed += bool(faults)
                if faults or "--list" in sys.argv:
                    print(f"{row}: {line}" + "".join(f"\n    {fault}" for fault in faults), flush=True)
    print(f"{len(rows)} kernels, {failed} at fault")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
