#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Kernel texts as C: one after the other into one file, with vectors that are written down turned into calls, the one thing of OpenCL C
that no macro can say in C. What a file includes is left out: the files are named in their order, since the machine stands in for some.

    as_c.py OUT.h IN.clh...
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^#(include\s+"[^"]+"|pragma once)[^\n]*$', re.MULTILINE)
LITERAL = re.compile(r"\(((?:float|int|uint|ushort)(?:2|4|8))\)\s*\(")


def main():
    parts = []
    for path in sys.argv[2:]:
        text = pathlib.Path(path).read_text()
        parts.append(f'#line 1 "{path}"\n' + LITERAL.sub(r"make_\1(", INCLUDE.sub("", text)))
    pathlib.Path(sys.argv[1]).write_text("\n".join(parts))


if __name__ == "__main__":
    main()
