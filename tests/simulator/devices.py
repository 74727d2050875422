#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What `clattn devices` says of the simulated devices' matrix units, and what `clattn plan` takes.

    devices.py RUN LIBRARY CLATTN

A tile that came out right opens the unit's kernels to plans; CLATTN_DISABLE closes them.
"""
import os
import subprocess
import sys

RUN, LIBRARY, CLATTN = sys.argv[1:]
UNITS = {"gfx1100": "amd_wmma", "gfx942": "amd_mfma"}


def ask(device, disabled, *words):
    command = [sys.executable, RUN, LIBRARY, device, CLATTN, *words]
    done = subprocess.run(command, env=dict(os.environ, CLATTN_DISABLE=disabled), stdout=subprocess.PIPE, text=True, timeout=100, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def check(device, unit, disabled):
    taken = not disabled
    said = f"{unit}: a tile came out right" if taken else f"{unit}, by --skeleton alone: no tile came out right, or CLATTN_DISABLE names it"
    devices = ask(device, disabled, "devices")
    plan = ask(device, disabled, "plan", "--device", "{device}", "--dtype", "bf16", "--d", "64", "--n", "4096")
    chosen = "forward_matrix" if taken else "forward_simt"
    right = said in devices and f"chosen     {chosen}," in plan
    print(f"{device}, CLATTN_DISABLE={disabled}: {'right' if right else devices + plan}")
    return right


sys.exit(0 if all([check(device, unit, disabled) for device, unit in UNITS.items() for disabled in ("", unit)]) else 1)
