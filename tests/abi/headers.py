#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles each public header alone, as C11 and as C++17, with every warning an error.

usage: headers.py INCLUDE_DIRECTORY C_COMPILER...
"""
import os
import shutil
import subprocess
import sys

WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Werror', '-fsyntax-only']


def compiles(compiler, language, standard, include, header):
    source = f'#include <clattn/{header}>\n#include <clattn/{header}>\ntypedef int not_empty;\n'
    command = [*compiler, *WARNINGS, f'-std={standard}', '-I', include, '-x', language, '-']
    done = subprocess.run(command, input=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(f'{header} as {standard}:\n{done.stdout}')
    return done.returncode == 0


def main():
    include, c_compiler = sys.argv[1], sys.argv[2:]
    languages = [(c_compiler, 'c', 'c11')]
    cpp_compiler = next((found for name in ('c++', 'g++', 'clang++') if (found := shutil.which(name))), None)
    if cpp_compiler:
        languages.append(([cpp_compiler], 'c++', 'c++17'))
    else:
        print('no C++ compiler: only C is checked')
    headers = sorted(os.listdir(os.path.join(include, 'clattn')))
    headers = [header for header in headers if header.endswith('.h')]
    failures = sum(not compiles(compiler, language, standard, include, header)
                   for compiler, language, standard in languages for header in headers)
    print(f'{len(headers)} headers, {failures} failures')
    return 1 if failures or not headers else 0


sys.exit(main())
