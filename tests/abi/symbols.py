#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what a library exports with the list of its public functions, and that list with its headers and its map.
mpi.h is libclattn_mpi's header, all others are libclattn's.

usage: symbols.py --list symbols.txt --map clattn.map --include DIRECTORY [--mpi] --shared LIBRARY [STATIC_LIBRARY...]
"""
import argparse
import glob
import os
import re
import subprocess
import sys


def defined(library, *options):
    """The names that a library defines; those of a shared one carry their version: name@@CLATTN_1.0."""
    output = subprocess.run(['nm', '--defined-only', '--extern-only', *options, library], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    names = {line.split()[-1] for line in output.splitlines() if len(line.split()) >= 3}
    # A version is a symbol, too, of an absolute value.
    return {name for name in names if not name.startswith('CLATTN_')}


def mapped(text):
    """name@@NODE of all names in a symbol map."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    return {f'{name}@@{node}' for node, body in re.findall(r'(\w[\w.]*)\s*{(.*?)}', text, flags=re.S)
            for name in re.findall(r'^\s+(\w+);', body, flags=re.M)}


def declared(include, mpi):
    names = set()
    for path in glob.glob(os.path.join(include, 'clattn', '*.h')):
        if (os.path.basename(path) == 'mpi.h') != mpi:
            continue
        with open(path, encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
        text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
        for declaration in re.findall(r'CLATTN_API\s+([^;]*?)\(', text):
            names.add(re.findall(r'\w+', declaration)[-1])
    return names


def differ(what, found, wanted):
    for name in sorted(found - wanted):
        print(f'{what} has {name}, the list does not')
    for name in sorted(wanted - found):
        print(f'{what} lacks {name}')
    return found != wanted


def main():
    parser = argparse.ArgumentParser()
    for name in ('list', 'map', 'include', 'shared'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('--mpi', action='store_true')
    parser.add_argument('static', nargs='*')
    arguments = parser.parse_args()
    with open(arguments.list, encoding='utf-8') as file:
        versioned = set(file.read().split())
    with open(arguments.map, encoding='utf-8') as file:
        in_map = mapped(file.read())
    wanted = {name.split('@@')[0] for name in versioned}
    failures = [differ('the library', defined(arguments.shared, '--dynamic'), versioned),
                differ('the symbol map', in_map, versioned),
                differ('the headers', declared(arguments.include, arguments.mpi), wanted)]
    for library in arguments.static:
        stray = {name for name in defined(library) if not name.startswith(('clattn_', 'cla_'))}
        # Sanitizers put names of their own into every object.
        stray = {name for name in stray if not name.startswith(('__asan', '__ubsan', '__tsan', '__odr_asan'))}
        for name in sorted(stray):
            print(f'{library}: {name} does not begin with clattn_ or cla_')
        failures.append(bool(stray))
    print(f'{len(wanted)} public functions, {sum(failures)} of {len(failures)} comparisons failed')
    return 1 if any(failures) or not wanted else 0


sys.exit(main())
