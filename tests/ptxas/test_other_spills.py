#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the kernels that run on any GPU for AMD's and Intel's, as planned for the devices of clinfo dumps, and fails
where registers go to memory, or where an AMD device's SIMD holds one wave alone.

    test_other_spills.py DUMP_TEXTS DUMP_FOLDER [--list] [--all] [PATTERN...]

AMD's want clang 19 or newer with its AMDGPU back end and libclc's amdgcn--amdhsa.bc; Intel's ocloc ($OCLOC, or on the path;
Debian's package intel-opencl-icd). Devices that it does not know, such as Xe2's bmg, are named and left out; tests/README.md
says how another is had. Exit status 77, which Meson calls skipped, where neither is there. --all compiles every feature; else what
differs most: plain kernels, and dropout with a bias; but of AMD's matrix kernels all. PATTERN takes those whose names have it.
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
INTEL = {"tgl": ("tgllp", ""), "dg2": ("dg2", " -cl-intel-256-GRF-per-thread"), "pvc": ("pvc", " -cl-intel-256-GRF-per-thread"),
         "bmg": ("bmg", " -cl-intel-256-GRF-per-thread")}

# Scalar registers that may go to lanes of vector registers, by the name: no memory is touched. CDNA's masks of 64 lanes take two
# of its 102 each, and dropout with a bias has most of them; matrix kernels have a careful run beside the usual one.
SCALARS = (("amd-.*_matrix-", 240), ("amd-gfx9", 150), ("amd-gfx1", 80))
# Of Intel's code: block reads are one message for a row of all lanes.
COUNTED = {"dpas": r"\bdpas", "messages": r"\bsendc?\b", "scratch": r"// .*scratch", "block reads": r"// .*(?:d32x\d+t|oword block read)",
           "barriers": r"// .*signal barrier"}
BUILTINS = pathlib.Path(__file__).with_name("intel_builtins.clh")
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
    allowed = next(most for pattern, most in SCALARS if re.match(pattern, text.stem))
    if number["SGPRs Spill"] > allowed:
        faults.append(f"{number['SGPRs Spill']} scalar registers spill, {allowed} are known")
    if waves < LEAST_WAVES:
        faults.append(f"{waves} waves a SIMD, {LEAST_WAVES} are wanted")
    return (f"VGPRs {number['VGPRs']}, spilled {number['VGPRs Spill']} and {number['SGPRs Spill']} scalars, scratch {number['ScratchSize']}, "
            f"local {number['LDS Size']}, waves a SIMD {waves:g}"), faults


def least_products(text):
    """The DPAS of one slice in a kernel on matrix units; 0 for the others."""
    number = {name: int(value) for name, value in re.findall(r"^#define CLATTN_(\w+) (\d+)$", text, re.M)}
    if "LANES" not in number:
        return 0
    d, d_v, each = number["D"] // 16, number["D_V"] // 16, 32 // number["LANES"]
    if "KEYS" in number:
        return (d + d_v) * number["KEYS"] // 16 * each
    kernel = number["KERNEL"]
    gradients = (d, (d + d_v) // number["DK_DV_SPLIT"], 0)[kernel]
    return (d + d_v + gradients) * number["DK_DV_SLICE" if kernel == 1 else "DQ_SLICE"] // 16 * each


def instructions(binary, device, work):
    """What a program is made of, by the disassembler. (It looks for a name of libiga64 that Debian has in no package.)"""
    library = next(pathlib.Path("/usr/lib").glob("*/libiga64.so.1"), None)
    with tempfile.TemporaryDirectory() as folder:
        if library:
            (pathlib.Path(folder) / "libiga64.so").symlink_to(library)
        subprocess.run([OCLOC, "disasm", "-file", binary, "-device", device, "-dump", folder], capture_output=True, cwd=work,
                       env={**os.environ, "LD_LIBRARY_PATH": folder})
        return "".join(path.read_text() for path in pathlib.Path(folder).glob("*.asm"))


def intel(text, device, work):
    """Spills are counted by what is executed: ocloc does not always say that registers spill."""
    name, options = INTEL[device]
    source = pathlib.Path(work) / f"{text.stem}.declared.cl"
    source.write_text(BUILTINS.read_text() + text.read_text())
    folder = pathlib.Path(work) / text.stem
    out = subprocess.run([OCLOC, "compile", "-file", source, "-device", name, "-options", "-cl-std=CL1.2" + options, "-output", text.stem,
                          "-out_dir", folder], capture_output=True, text=True, cwd=work)
    binary = next(folder.glob("*.bin"), None)
    if "Build succeeded" not in out.stdout + out.stderr or not binary:
        return None, [(out.stdout + out.stderr)[-600:]]
    code = instructions(binary, name, work)
    count = {what: len(re.findall(pattern, code)) for what, pattern in COUNTED.items()}
    least = least_products(text.read_text())
    faults = []
    if not count["messages"]:
        faults.append("the disassembler has said nothing")
    if count["scratch"]:
        faults.append(f"{count['scratch']} accesses to scratch memory, where registers go that do not suffice")
    if count["dpas"] < least:
        faults.append(f"{count['dpas']} DPAS, a slice alone takes {least}")
    return ", ".join(f"{what} {number}" for what, number in count.items()), faults


def intels():
    """The devices that this ocloc knows: Debian 12's has no Xe2."""
    if not OCLOC:
        return set()
    out = subprocess.run([OCLOC, "compile", "--help"], capture_output=True, text=True)
    words = set(re.findall(r"[\w-]+", out.stdout + out.stderr))
    left = sorted(device for device, (name, _) in INTEL.items() if name not in words)
    if left:
        print(f"{OCLOC} does not know {', '.join(left)}: left out")
    return set(INTEL) - set(left)


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
    devices = intels()
    dumps = [str(path) for path in sorted(pathlib.Path(sys.argv[2]).glob("*.raw")) if path.name.startswith(("amd-", "intel-"))]
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.argv[1], folder, *dumps], check=True, capture_output=True, text=True)
        rows = [line.split()[0] for line in made.stdout.splitlines()]
        rows = [row for row in rows if "--all" in sys.argv or re.match(r"amd-.*_matrix-|.*-f(0|520)(-bf16)?$", row)]
        only = [a for a in sys.argv[3:] if not a.startswith("--")]
        rows = [row for row in rows if not only or any(re.search(a, row) for a in only)]
        rows = [row for row in rows if (row.startswith("amd-") and has_amd) or (row.startswith("intel-") and row.split("-")[1] in devices)]
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
