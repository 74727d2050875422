#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which share of its matrix peak a simulated device's kernel could reach, from the instructions that it executes.

    rates.py LIBRARY EXECUTED [--device gfx1100] [--d 64,128] [--dtype fp16,bf16] [--backward] [--feature NAME]...

A call with more keys (backward: with more keys and rows) less one with fewer is what its tiles take; each unit's clocks of
that are counted, by what the vendor publishes. It is a bound: nothing waits for anything, and whatever can run beside
other things does. RDNA's vector units do the matrix products; CDNA's have units of their own for them.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

RUN = pathlib.Path(__file__).with_name("run.py")

# Clocks of a SIMD that an instruction of each unit takes, those of a matrix product of 16 x 16 x 16, whether the vector
# unit does it, SIMDs that share local memory's port, and lanes whose words pass the port in a clock. AMD's ISA documents
# of RDNA 3, RDNA 4, CDNA 2 and CDNA 3; products from the peaks that AMD publishes.
CHIPS = {"gfx1100": {"vector": 1, "slow": 4, "scalar": 1, "matrix": 32, "shared": True, "simds": 2, "lanes": 32, "words": 32},
         "gfx1201": {"vector": 1, "slow": 4, "scalar": 1, "matrix": 16, "shared": True, "simds": 2, "lanes": 32, "words": 32},
         "gfx90a": {"vector": 4, "slow": 16, "scalar": 4, "matrix": 32, "shared": False, "simds": 4, "lanes": 64, "words": 32},
         "gfx942": {"vector": 4, "slow": 16, "scalar": 4, "matrix": 16, "shared": False, "simds": 4, "lanes": 64, "words": 32}}
FEATURES = {"": "0", "softcap": "0x2:50", "small softcap": "0x2:4", "alibi": "0x4", "dropout": "0x200@0.1", "planned dropout": "0x200:0.1"}


class Device:
    def __init__(self, library, program, name, sizes):
        self.words = [sys.executable, str(RUN), library, name, program]
        self.name, self.sizes = name, sizes

    def counts(self, d, dtype, rows, keys, feature, backward):
        """What the kernels that multiply execute, added up."""
        command = self.words + ["backward" if backward else "forward", dtype, str(d), str(rows), str(keys), FEATURES[feature], "1", *self.sizes]
        done = subprocess.run(command, env=dict(os.environ, SIMULATED_COUNT="1", CLATTN_TUNING_FILE=""), capture_output=True,
                              text=True, check=False)
        if done.returncode == 77:
            sys.exit(77)
        if done.returncode:
            sys.exit(done.stderr)
        total = {}
        for words in re.findall(r"^simulated: (?!clattn_probe)\w+:(.*matrix [1-9].*)$", done.stderr, re.M):
            for unit, count in zip(words.split()[::2], words.split()[1::2]):
                total[unit] = total.get(unit, 0) + int(count)
        return total

    def tiles(self, d, dtype, feature, backward):
        few = self.counts(d, dtype, 256, 256, feature, backward)
        many = self.counts(d, dtype, 512 if backward else 256, 768, feature, backward)
        return {unit: many[unit] - few[unit] for unit in many}

    def share(self, counted):
        """Of the matrix peak; and the clocks of a SIMD for each unit, for 1000 of the products'."""
        chip = CHIPS[self.name]
        matrix = counted["matrix"] * chip["matrix"]
        vector = counted["vector"] * chip["vector"] + counted["slow"] * chip["slow"]
        clocks = {"matrix": matrix, "vector": vector, "scalar": counted["scalar"] * chip["scalar"],
                  "local": counted["words"] * chip["lanes"] / chip["words"] * chip["simds"]}
        busiest = max(clocks["local"], clocks["scalar"], matrix + vector if chip["shared"] else max(matrix, vector))
        return matrix / busiest, {unit: round(1000 * n / matrix) for unit, n in clocks.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("executed")
    parser.add_argument("--device", default="gfx1100,gfx1201,gfx942")
    parser.add_argument("--d", default="64,128")
    parser.add_argument("--dtype", default="fp16")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--feature", default=",alibi,softcap,small softcap,dropout", help="names; an empty one: none")
    parser.add_argument("--least", type=float, default=0, help="fail where a plain kernel's share is below")
    parser.add_argument("--sizes", default="0,0,0", help="b_r, b_c, items of a work-group, and knobs behind them")
    options = parser.parse_args()
    short = 0
    for name in options.device.split(","):
        device = Device(options.library, options.executed, name, options.sizes.split(",", 3))
        for d in map(int, options.d.split(",")):
            for dtype in options.dtype.split(","):
                plain = None
                for feature in options.feature.split(","):
                    counted = device.tiles(d, dtype, feature, options.backward)
                    share, clocks = device.share(counted)
                    issued = sum(counted[unit] for unit in counted if unit not in ("hint", "words"))
                    plain = plain or issued
                    short += not feature and share < options.least
                    print(f"{name} d {d} {dtype} {feature or 'plain'}: share {share:.2f}, {issued / plain:.2f} of the plain "
                          f"kernel's instructions, clocks {clocks}, {counted}", flush=True)
    return 1 if short else 0


sys.exit(main())
