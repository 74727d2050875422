#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a program on a device of the simulated platform.

    run.py LIBRARY DEVICE PROGRAM ARGUMENT...

LIBRARY is the platform, DEVICE gfx1100, gfx1201, gfx942 or gfx90a. {device} in an argument becomes the device as clattn's
options have it. Exit status 77, which Meson calls skipped, where clang 19, its disassembler or libclc's amdgcn--amdhsa.bc
is missing.
"""
import os
import pathlib
import shutil
import sys
import tempfile

DEVICES = ["gfx1100", "gfx1201", "gfx942", "gfx90a"]
LIBCLC = "/usr/lib/clc/amdgcn--amdhsa.bc"


def missing():
    tools = [os.environ.get("SIMULATED_CLANG", "clang-19"), os.environ.get("SIMULATED_OBJDUMP", "llvm-objdump-19"), "ld.lld-19"]
    lost = [tool for tool in tools if not shutil.which(tool)]
    return lost + ([] if pathlib.Path(os.environ.get("SIMULATED_LIBCLC", LIBCLC)).exists() else [LIBCLC])


def main():
    library, device, *command = sys.argv[1:]
    if missing():
        print(f"missing: {', '.join(missing())}")
        return 77
    number = f"0:{DEVICES.index(device)}"
    with tempfile.TemporaryDirectory() as folder:
        icd = pathlib.Path(folder) / "simulated.icd"
        icd.write_text(f"{library}\n")
        environment = dict(os.environ, OCL_ICD_VENDORS=str(icd), CLATTN_TEST_DEVICE=number, CLATTN_CACHE_DIR="")
        return os.spawnvpe(os.P_WAIT, command[0], [word.replace("{device}", number) for word in command], environment)


if __name__ == "__main__":
    sys.exit(main())
