#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether what was built has what the option `hardening` promises, by readelf: relocations that are read-only once the
program has started, all symbols bound by then, no executable stack, a stack protector, and checked variants of the C
library's functions (_FORTIFY_SOURCE). First a program without any of it is built: all of it must be missed.

usage: hardened.py [--fortify] [--stack-protector] COMPILER... -- FILE...
"""
import subprocess
import sys
import tempfile

BARE = '''#include <stdio.h>
#include <string.h>
int main(int count, char **words) { char text[16]; strcpy(text, words[count - 1]); return puts(text); }
'''
WITHOUT = ['-O2', '-U_FORTIFY_SOURCE', '-fno-stack-protector', '-Wl,-z,norelro', '-Wl,-z,lazy', '-Wl,-z,execstack', '-w']


def readelf(path, *options):
    return subprocess.run(['readelf', '--wide', *options, path], check=True, stdout=subprocess.PIPE, text=True).stdout


def missing(path, fortify, stack_protector):
    segments, dynamic = readelf(path, '--segments'), readelf(path, '--dynamic')
    # (a name may be shortened: __stack_chk_fail@GLIBC_2.4 (2))
    symbols = {word.split('@')[0] for line in readelf(path, '--dyn-syms').splitlines() for word in line.split()}
    stack = next((line.split()[-2] for line in segments.splitlines() if 'GNU_STACK' in line), 'none')
    found = []
    if 'GNU_RELRO' not in segments:
        found.append('-z relro')
    if 'BIND_NOW' not in dynamic and ' NOW' not in dynamic:
        found.append('-z now')
    if 'E' in stack or stack == 'none':
        found.append('-z noexecstack')
    if stack_protector and '__stack_chk_fail' not in symbols:
        found.append('-fstack-protector-strong')
    if fortify and not any(name.endswith('_chk') for name in symbols):
        found.append('-D_FORTIFY_SOURCE')
    return found


def main():
    arguments = sys.argv[1:]
    fortify, stack_protector = '--fortify' in arguments, '--stack-protector' in arguments
    arguments = [word for word in arguments if word not in ('--fortify', '--stack-protector')]
    compiler, files = arguments[:arguments.index('--')], arguments[arguments.index('--') + 1:]
    with tempfile.NamedTemporaryFile() as bare:
        subprocess.run([*compiler, *WITHOUT, '-x', 'c', '-', '-o', bare.name], input=BARE, text=True, check=True)
        if len(missing(bare.name, True, True)) != 5:
            print('of a program without all five only these are missed:', missing(bare.name, True, True))
            return 1
    failures = 0
    for path in files:
        found = missing(path, fortify, stack_protector)
        failures += bool(found)
        print(f'{path}: {"lacks " + ", ".join(found) if found else "hardened"}')
    return 1 if failures or not files else 0


sys.exit(main())
