#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether others read the sources without a warning: clang the library and the command, gcc for 32 bits and gcc with musl's C
library the library, and the compiler of this build all that is one unit of several files with -Dunity=on. Nothing is made
(-fsyntax-only), which takes seconds; tools/check.sh --full builds all of it.

First each of them has to refuse a text that is wrong for it alone. Who is not installed is named, and left out.

usage: others.py SOURCE_ROOT BUILD_ROOT MESON -- COMPILER...
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

# Headers of the libraries that musl is given beside its own: these, and no more of /usr/include.
LIBRARIES = ['CL', 'jansson.h', 'xxhash.h', 'clblast_c.h', 'clblast_half.h']
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Werror']


def wrong_for(condition):
    return f'#include <errno.h>\n#include <stdint.h>\n#include <stdio.h>\n#if {condition}\n#error seen\n#endif\nint one = 1;\n'


def library_headers(folder, compiler):
    where = subprocess.run([*compiler, '-print-multiarch'], capture_output=True, text=True, check=False).stdout.strip()
    for name in [*LIBRARIES, f'{where}/jansson_config.h']:
        (folder / pathlib.Path(name).name).symlink_to(f'/usr/include/{name}')
    return ['-isystem', str(folder)]


def kernel_headers(folder, compiler):
    """What a compiler for 32 bits looks for in another folder."""
    where = subprocess.run([*compiler, '-print-multiarch'], capture_output=True, text=True, check=False).stdout.strip()
    (folder / 'kernel').mkdir()
    (folder / 'kernel/asm').symlink_to(f'/usr/include/{where}/asm')
    return ['-isystem', str(folder / 'kernel')]


def first_of(*names):
    return next((path for path in map(shutil.which, names) if path), names[0])


def compilers(folder, compiler):
    """Name, command, how the preprocessor knows that it is this one, and the folders that it reads."""
    clang = first_of('clang', *(f'clang-{version}' for version in range(25, 12, -1)))
    return [('clang', [clang], 'defined __clang__', ('src', 'tools')),
            ('32 bits', ['gcc', '-m32', *kernel_headers(folder, compiler)], 'SIZE_MAX == UINT32_MAX', ('src',)),
            ('musl', ['musl-gcc', *library_headers(folder, compiler)], '!defined __GLIBC__', ('src',))]


def read(command, flags, path, folder):
    try:
        done = subprocess.run([*command, *WARNINGS, *flags, '-fsyntax-only', path], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        return 127, ''
    return done.returncode, done.stdout


def is_there(name, command, condition, folder):
    """Whether the compiler works; whoever does not refuse what is wrong for it is another than we take it for."""
    right, wrong = folder / 'right.c', folder / 'wrong.c'
    right.write_text(wrong_for('0'), encoding='utf-8')
    wrong.write_text(wrong_for(condition), encoding='utf-8')
    if read(command, [], str(right), folder)[0]:
        print(f'{name}: not installed')
        return False
    if not read(command, [], str(wrong), folder)[0]:
        raise SystemExit(f'{name}: {shlex.join(command)} is not what its name says')
    return True


def flags_of(command):
    """What says how a file is to be read; not how code is made of it."""
    kept = [word for word in shlex.split(command) if word.startswith(('-I', '-D', '-W', '-std='))]
    return [word for word in kept if not word.startswith(('-D_FORTIFY_SOURCE', '-Wl,', '-Wno-maybe-uninitialized'))]


def entries(build):
    return json.loads((build / 'compile_commands.json').read_text(encoding='utf-8'))


def read_all(name, command, files, build):
    """files: path and flags. How many have a warning."""
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, text in pool.map(lambda file: read(command, file[1], file[0], build), files):
            if status or text:
                failed += 1
                print(f'{name}:\n{text[:2000]}')
    print(f'{name}: {len(files) - failed} of {len(files)} files without a warning')
    return failed


def sources(build, folders):
    found = {}
    for entry in entries(build):
        path = (build / entry['file']).resolve()
        if any(folder in path.parents for folder in folders):
            found[str(path)] = flags_of(entry['command'])
    return sorted(found.items())


def united(root, folder, meson, compiler):
    """Files of a build with -Dunity=on that are several in one."""
    subprocess.run([meson, 'setup', str(folder), str(root), '-Dunity=on'], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, CC=shlex.join(compiler)))
    found = []
    for entry in entries(folder):
        path = folder / entry['file']
        if '-unity' in path.name and path.read_text(encoding='utf-8').count('#include') > 1:
            found.append((str(path), flags_of(entry['command'])))
    return found


def read_by(known, root, build, folder):
    name, command, condition, folders = known
    if not is_there(name, command, condition, folder):
        return 0
    files = sources(build, [root / below for below in folders])
    return read_all(name, command, files, build) + (len(files) < 50)


def main():
    split = sys.argv.index('--')
    root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    meson, compiler = sys.argv[3], sys.argv[split + 1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / 'headers').mkdir()
        failed = sum(read_by(known, root, build, folder) for known in compilers(folder / 'headers', compiler))
        units = united(root, folder / 'unity', meson, compiler)
        failed += read_all('unity', compiler, units, folder / 'unity')
    return 1 if failed or len(units) < 8 else 0


if __name__ == '__main__':
    sys.exit(main())
