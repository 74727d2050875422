#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs one program with the library of this build: built against the headers of each earlier release (kept/), and against
headers of a later one, made up, in which struct clattn_problem has one more member.

usage: growth.py --kept DIRECTORY --include DIRECTORY --source growth.c --library LIBRARY COMPILER...
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile


def later_headers(include, work):
    """One word of the problem's reserved room becomes a member."""
    folder = os.path.join(work, 'later')
    shutil.copytree(include, folder)
    path = os.path.join(folder, 'clattn', 'problem.h')
    with open(path, encoding='utf-8') as file:
        text = file.read()
    text, changes = re.subn(r'(int64_t sink_keys;\s+)uint64_t reserved\[(\d+)\]',
                            lambda found: f'{found[1]}int64_t later; uint64_t reserved[{int(found[2]) - 1}]', text)
    if changes != 1:
        sys.exit(f'problem.h has {changes} places for a later member')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return folder


def runs(arguments, include, work, *options):
    program = os.path.join(work, 'program')
    folder = os.path.dirname(arguments.library)
    built = subprocess.run([*arguments.compiler, '-std=c11', '-Wall', '-Wextra', '-Werror', '-I', include, *options,
                            arguments.source, arguments.library, f'-Wl,-rpath,{folder}', '-o', program],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode:
        print(built.stdout)
        return False
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(os.path.basename(include), done.stdout.strip())
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    for name in ('kept', 'include', 'source', 'library'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('compiler', nargs='+')
    arguments, flags = parser.parse_known_args()
    arguments.compiler += flags
    versions = sorted(os.listdir(arguments.kept))
    with tempfile.TemporaryDirectory() as work:
        right = [runs(arguments, os.path.join(arguments.kept, version), work) for version in versions]
        right.append(runs(arguments, later_headers(arguments.include, work), work, '-DLATER'))
    return 0 if versions and all(right) else 1


sys.exit(main())
