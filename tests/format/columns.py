#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether lines of C and of kernels stay within 120 columns. Files that do not yet are listed in too_long.txt: the list may
only shrink, so that a file on it which has come to fit must leave it, and no other may be over.

usage: columns.py ROOT LIST
"""
import os
import sys
import tempfile

import sources

MOST = 120


def too_long(path):
    with open(path, encoding='utf-8') as file:
        return [number for number, line in enumerate(file, 1) if len(line.rstrip('\n')) > MOST]


def main():
    root, listed = sys.argv[1:]
    with tempfile.NamedTemporaryFile('w', suffix='.c') as wrong:
        wrong.write('/*' + 117 * '.' + '*/\n' + 118 * '/' + '\n')
        wrong.flush()
        if too_long(wrong.name) != [1]:
            sys.exit('a line of 121 columns is not found, or one of 118 is')
    with open(listed, encoding='utf-8') as file:
        excused = {line.strip() for line in file if line.strip() and not line.startswith('#')}
    paths = sources.c_files(root) + sources.kernel_files(root)
    over = {os.path.relpath(path, root): lines for path in paths if (lines := too_long(path))}
    failures = 0
    for name in sorted(set(over) - excused):
        failures += 1
        print(f'{name}: over {MOST} columns in line {", ".join(map(str, over[name][:10]))}')
    for name in sorted(excused - set(over)):
        failures += 1
        print(f'{name} is within {MOST} columns now, or gone: take it out of {os.path.basename(listed)}')
    print(f'{len(paths)} files, {len(excused)} excused, {failures} failures')
    return 1 if failures or not paths else 0


sys.exit(main())
