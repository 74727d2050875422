#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether all arrows between the library's floors point down: mpi -> ring -> attention -> device -> plan. What a file includes, and what
each floor's archive needs, stands on its own floor or below. OpenCL is called in device/clcall*.c alone, MPI in
mpi/transport.c alone, CLBlast is not linked, and device/os_library.c alone loads libraries. Kernels include kernels. Tools use the public
headers, but for what TOOLS_MAY names.

First a made-up tree and archives with one wrong arrow of each kind are judged: each must be found.

usage: floors.py ROOT NM COMPILER... -- ARCHIVE...     archives named libclattn_FLOOR.a, the lowest first
"""
import os
import re
import subprocess
import sys
import tempfile

FLOORS = ['plan', 'device', 'attention', 'ring', 'mpi']  # the lowest first; the last is built where MPI is

# What tools have of the library's own, and why.
TOOLS_MAY = {
    ('bench/kernel.c', 'plan/source.h'),      # ceilings: measured by kernels that are embedded beside the library's
    ('bench/peak.c', 'plan/matrix_units.h'),  # which matrix unit the ceiling is of
    ('reference/storage.c', 'plan/half.h'),   # one conversion of 16-bit numbers, judged by its own test
    ('reference/formats.c', 'plan/half.h'),
    ('verify/case.c', 'plan/checked.h'),      # one rounding up of divisions
    ('verify/draw.c', 'plan/checked.h'),
    ('devices.c', 'plan/matrix_units.h'),     # the table of matrix units, whose names it shows
    ('options/options.h', 'plan/features/feature.h'),  # the table of score features: options, files,
    ('options/names.c', 'plan/features/feature.h'),    # names,
    ('reference/reference.h', 'plan/features/feature.h'),  # values that the judge takes,
    ('verify/draw.c', 'plan/features/feature.h'),      # and that are drawn
}

# Whose business another library is: the object file.
CALLERS = {r'cl[A-Z]\w*': ('device', 'clcall', 'clcall_program'), r'CLBlast\w*|dl(open|sym)': ('device', 'os_library'),
           r'P?MPI_\w+': ('mpi', 'transport')}


def included(path):
    with open(path, encoding='utf-8') as file:
        return re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), flags=re.M)


def files_of(folder, endings):
    for path, directories, names in os.walk(folder):
        directories[:] = [name for name in directories if name != '__pycache__']
        yield from (os.path.join(path, name) for name in sorted(names) if name.endswith(endings))


def wrong_includes(root):
    for number, floor in enumerate(FLOORS):
        for path in files_of(os.path.join(root, 'src', floor), ('.c', '.h')):
            for header in included(path):
                if header.split('/')[0] not in FLOORS[:number + 1]:
                    yield f'{os.path.relpath(path, root)} includes {header}: {floor} stands on ' \
                          f'{" and ".join(FLOORS[:number]) or "nothing"}'
    for path in files_of(os.path.join(root, 'tools'), ('.c', '.h')):
        for header in included(path):
            own = os.path.exists(os.path.join(root, 'tools/clattn', header))  # ring/ is a folder of both
            if header.split('/')[0] in FLOORS and not own and \
                    (os.path.relpath(path, os.path.join(root, 'tools/clattn')), header) not in TOOLS_MAY:
                yield f'{os.path.relpath(path, root)} includes {header}: tools use the public headers'
    for path in files_of(os.path.join(root, 'cl'), ('.cl', '.clh')):
        for header in included(path):
            if not os.path.exists(os.path.join(root, 'cl', header)):
                yield f'{os.path.relpath(path, root)} includes {header}, which is not below cl/'


def symbols(nm, archive):
    """What an archive defines for others, and what it needs: (name, object file)."""
    defined, needed = set(), set()
    said = subprocess.run([nm, '--extern-only', '--print-file-name', archive], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    for line in said.splitlines():
        place, fields = line.rsplit(':', 1)
        # ARCHIVE:FLOOR_UNIT.c.o, or of a thin archive the object's path
        unit = re.sub(r'(\.c)?\.o$', '', re.split('[:/]', place)[-1]).split('_', 1)[-1]  # (mpi's have no FLOOR)
        kind, name = fields.split()[-2:]
        if kind in 'Uw':
            needed.add((name, unit))
        else:
            defined.add(name)
    return defined, needed


def wrong_needs(nm, archives):
    below = set()
    everywhere = {}
    tables = []
    for archive in archives:
        floor = re.search(r'libclattn_(\w+?)(_floor)?\.a$', archive).group(1)
        defined, needed = symbols(nm, archive)
        tables.append((floor, defined, needed))
        everywhere.update({name: floor for name in defined})
    for floor, defined, needed in tables:
        below |= defined
        for name, unit in sorted(needed):
            if name in everywhere and name not in below:
                yield f'{floor}/{unit} needs {name}, which is of {everywhere[name]}'
            for pattern, (home, *units) in CALLERS.items():
                if re.fullmatch(pattern, name) and not (floor == home and unit in units):
                    yield f'{floor}/{unit} calls {name}: {home}/{" and ".join(units)} alone does'


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    return path


def archive_of(compiler, root, floor, unit, text):
    source = write(root, f'{floor}_{unit}.c', text)
    target = os.path.join(root, f'{floor}_{unit}.c.o')
    subprocess.run([*compiler, '-c', source, '-o', target], check=True)
    archive = os.path.join(root, f'libclattn_{floor}.a')
    subprocess.run(['ar', 'rcs', archive, target], check=True)
    return archive


def self_test(nm, compiler):
    """Which of the wrong arrows of a made-up tree are not found."""
    with tempfile.TemporaryDirectory() as root:
        write(root, 'src/plan/low.c', '#include "plan/low.h"\n#include "device/middle.h"\n')
        write(root, 'src/device/middle.c', '#include "plan/low.h"\n# include "attention/high.h"\n')
        write(root, 'src/attention/high.c', '#include "plan/low.h"\n#include "mpi/top.h"\n#include <stdio.h>\n')
        write(root, 'tools/clattn/tool.c', '#include "device/middle.h"\n#include "tool.h"\n')
        write(root, 'cl/kernel.cl', '#include "common.clh"\n#include "../src/plan/low.h"\n')
        write(root, 'cl/common.clh', '')
        archives = [
            archive_of(compiler, root, 'plan', 'low', 'void cla_high(void);\nvoid cla_low(void);\n'
                                                      'void cla_low(void) { cla_high(); }\n'),
            archive_of(compiler, root, 'device', 'middle', 'void clFinish(void);\nvoid cla_middle(void);\n'
                                                           'void cla_middle(void) { clFinish(); }\n'),
            archive_of(compiler, root, 'attention', 'high', 'void cla_low(void);\nvoid MPI_Wait(void);\nvoid cla_high(void);\n'
                                                            'void cla_high(void) { cla_low(); MPI_Wait(); }\n')]
        said = [*wrong_includes(root), *wrong_needs(nm, archives)]
    wanted = ['src/plan/low.c includes device/middle.h', 'src/device/middle.c includes attention/high.h',
              'tools/clattn/tool.c includes device/middle.h', 'cl/kernel.cl includes ../src/plan/low.h',
              'src/attention/high.c includes mpi/top.h', 'attention/high calls MPI_Wait',
              'plan/low needs cla_high, which is of attention', 'device/middle calls clFinish']
    missed = [line for line in wanted if not any(found.startswith(line) for found in said)]
    return missed if len(said) == len(wanted) else missed + [f'{len(said)} were found, not {len(wanted)}: {said}']


def main():
    root, nm, words = sys.argv[1], sys.argv[2], sys.argv[3:]
    compiler, archives = words[:words.index('--')], words[words.index('--') + 1:]
    missed = self_test(nm, compiler)
    found = [*wrong_includes(root), *wrong_needs(nm, archives)]
    for line in missed:
        print('self-test:', line)
    for line in found:
        print(line)
    print(f'{len(found)} arrows that point up, {len(archives)} archives')
    return 1 if missed or found or len(archives) < len(FLOORS) - 1 else 0


sys.exit(main())
