#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Takes the example out of clattn/attention.h, compiles it with a program that calls it (example.c), and runs that.

usage: example.py --include DIRECTORY --source example.c --library LIBRARY COMPILER... [-- FLAG...]
"""
import argparse
import os
import subprocess
import sys
import tempfile


def example(header):
    """The indented lines from the first #include inside the comment to the closing brace."""
    with open(header, encoding='utf-8') as file:
        lines = file.read().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(' *     #include <clattn/'))
    end = next(i for i in range(begin, len(lines)) if lines[i] == ' *     }')
    return [line[len(' *     '):] for line in lines[begin:end + 1]]


def main():
    words = sys.argv[1:]
    flags = words[words.index('--') + 1:] if '--' in words else []
    words = words[:words.index('--')] if '--' in words else words
    parser = argparse.ArgumentParser()
    for name in ('include', 'source', 'library'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('compiler', nargs='+')
    arguments, more = parser.parse_known_args(words)
    arguments.compiler += more
    text = example(os.path.join(arguments.include, 'clattn', 'attention.h'))
    with tempfile.TemporaryDirectory() as work:
        # As a reader would: into a file of its own, with every warning.
        taken, program = os.path.join(work, 'taken.c'), os.path.join(work, 'program')
        with open(taken, 'w', encoding='utf-8') as file:
            file.write('\n'.join(text) + '\n')
        folder = os.path.dirname(arguments.library)
        subprocess.run([*arguments.compiler, '-std=c11', '-Wall', '-Wextra', '-Werror', '-I', arguments.include, taken,
                        arguments.source, arguments.library, f'-Wl,-rpath,{folder}', *flags, '-o', program], check=True)
        done = subprocess.run([program])
    print(f'{len([line for line in text if line])} lines')
    return done.returncode


sys.exit(main())
