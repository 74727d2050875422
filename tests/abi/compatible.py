#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether programs built against the headers of an earlier release run with a library built from the present ones.

The earlier headers are kept without comments (kept/1.0, by keep.py). Both are compiled by the same compiler, so that the
comparison holds for whatever machine and compiler run it: of each struct the size and alignment, of each member the place,
size and type, of each enum the size and of each enumerator the value, of each function the types. A new member may only take
reserved room, without padding. Where abidiff (abigail-tools) is installed, it compares the same two in its own way.

usage: compatible.py --kept DIRECTORY --include DIRECTORY [--self-test] COMPILER...
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import declarations

HEADER = '#include <clattn/clattn.h>\n#if __has_include(<clattn/mpi.h>)\n#include <clattn/mpi.h>\n#endif\n#include <stddef.h>\n'


class Abi:
    """What a compiler makes of the declarations below a directory."""

    def __init__(self, include, compiler, work):
        self.include = include
        self.found = declarations.read(include)
        source = HEADER + '#include <stdio.h>\nint main(void)\n{\n' + '\n'.join(self.questions()) + '\nreturn 0;\n}\n'
        path = os.path.join(work, 'ask')
        compile_c(compiler, source, path, include)
        done = subprocess.run([path], stdout=subprocess.PIPE, text=True, check=True)
        self.facts = {}
        for line in done.stdout.splitlines():
            name, *numbers = line.rsplit(':', 1)[0], *line.rsplit(':', 1)[1].split()
            self.facts[name] = tuple(int(number) for number in numbers)

    def questions(self):
        def ask(name, *values):
            yield f'printf("{name}:{" %lld" * len(values)}\\n", {", ".join(f"(long long)({v})" for v in values)});'
        for name, members in self.found.structs.items():
            yield from ask(f'struct {name}', f'sizeof(struct {name})', f'_Alignof(struct {name})')
            for member in members:
                place = f'((struct {name} *)0)->{member.name}'
                yield from ask(f'{name}.{member.name}', f'offsetof(struct {name}, {member.name})', f'sizeof({place})')
        for name, values in self.found.enums.items():
            if name.startswith('clattn_'):
                yield from ask(f'enum {name}', f'sizeof(enum {name})')
            for value in values:
                yield from ask(value, value)
        for name in self.found.constants:
            if not name.startswith('CLATTN_VERSION_'):
                yield from ask(name, name)


def compile_c(compiler, source, output, include, *options):
    done = subprocess.run([*compiler, '-std=c11', '-w', '-I', include, *options, '-x', 'c', '-', '-o', output],
                          input=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f'the headers below {include} do not compile:\n{done.stdout}')


def compare_members(name, old, new):
    """A struct that both have: nothing moves, and what is new takes reserved room to its last byte."""
    before = {member.name: member for member in old.found.structs[name]}
    after = {member.name: member for member in new.found.structs[name]}
    for member in before.values():
        place = f'{name}.{member.name}'
        if member.name == 'reserved':
            continue
        if member.name not in after:
            yield f'{place} is gone'
        elif old.facts[place] != new.facts[place]:
            yield f'{place} was at byte {old.facts[place][0]} with {old.facts[place][1]} bytes, and is ' \
                  f'at byte {new.facts[place][0]} with {new.facts[place][1]}'
        elif member.text() != after[member.name].text():
            yield f'{place} was "{member.text()}", and is "{after[member.name].text()}"'
    at, size = old.facts.get(f'{name}.reserved', (0, 0))
    end = at + size
    for member in after.values():
        if member.name in before and member.name != 'reserved':
            continue
        offset, size = new.facts[f'{name}.{member.name}']
        if offset != at:
            yield f'{name}.{member.name} is at byte {offset}, and not at {at}: new members take reserved room, from its ' \
                  'beginning on and without padding'
        at = offset + size
    if at != end:
        yield f'{name}: its reserved room ended at byte {end}, and ends at {at}'


def compare(old, new):
    """Each way in which the new ABI breaks programs of the old one."""
    for name in old.found.structs:
        if name not in new.found.structs:
            yield f'struct {name} is gone'
            continue
        if old.facts[f'struct {name}'] != new.facts[f'struct {name}']:
            yield f'struct {name} had size and alignment {old.facts[f"struct {name}"]}, and has ' \
                  f'{new.facts[f"struct {name}"]}'
        yield from compare_members(name, old, new)
    for name, numbers in old.facts.items():
        if name.startswith('struct ') or '.' in name:
            continue
        if name not in new.facts:
            yield f'{name} is gone'
        elif numbers != new.facts[name]:
            yield f'{name} was {numbers[0]}, and is {new.facts[name][0]}'
    for kind in ('functions', 'callbacks'):
        after = getattr(new.found, kind)
        for name, types in getattr(old.found, kind).items():
            if name not in after:
                yield f'{name} is gone'
            elif types != after[name]:
                yield f'{name} was "{types}", and is "{after[name]}"'


def library_of(abi, compiler, path):
    """A library with debug information that has the declared functions, for abidiff."""
    bodies = [f'{prototype} {{ __builtin_trap(); }}' for prototype in abi.found.prototypes.values()]
    compile_c(compiler, HEADER + '\n'.join(bodies) + '\n', path, abi.include, '-g', '-shared', '-fPIC')


def abidiff(old, new, compiler, work):
    """What abidiff says is broken; nothing where it is not installed."""
    if not shutil.which('abidiff'):
        print('abidiff: not installed, not asked')
        return []
    paths = [os.path.join(work, name) for name in ('old.so', 'new.so')]
    library_of(old, compiler, paths[0])
    library_of(new, compiler, paths[1])
    done = subprocess.run(['abidiff', *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    same = old.facts == new.facts and old.found.functions == new.found.functions
    # Its bits: 1 and 2 that it failed, 4 a change, 8 one that certainly breaks programs.
    if done.returncode & (1 | 2 | 8) or (same and done.returncode):
        return [f'abidiff ({done.returncode}): {done.stdout}']
    print('abidiff:', 'no change' if not done.returncode else done.stdout)
    return []


def copied(include, work, changes):
    """A copy of the headers with texts replaced, each exactly once."""
    folder = os.path.join(work, 'changed')
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(include, folder)
    for header, before, after in changes:
        path = os.path.join(folder, 'clattn', header)
        with open(path, encoding='utf-8') as file:
            text = file.read()
        if len(re.findall(before, text)) != 1:
            sys.exit(f'self-test: {header} has "{before}" {len(re.findall(before, text))} times')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(re.sub(before, after, text))
    return folder


# Changes and what is to be said of them; None: that they are fine.
CHANGES = [
    ('nothing', [], None),
    ('a member in reserved room', [('problem.h', r'int64_t sink_keys;\s+uint64_t reserved\[(\d+)\]',
                                    lambda found: f'int64_t sink_keys; int64_t later, more; '
                                                  f'uint64_t reserved[{int(found[1]) - 2}]')], None),
    ('an enumerator at the end', [('problem.h', r'CLATTN_BF16 = 2', 'CLATTN_BF16 = 2, CLATTN_FP8 = 3')], None),
    ('a function', [('version.h', r'(CLATTN_API const char \*clattn_version)', r'CLATTN_API int clattn_later(void); \1')],
     None),
    ('a member that moves others', [('problem.h', r'int d_v;', 'int d_v; int64_t later;')], 'clattn_problem.causal was at'),
    ('a member in the padding', [('score.h', r'const float \*data;', 'int later; const float *data;')],
     'clattn_host_score_args.later is at byte'),
    ('a member behind the room', [('problem.h', r'(int64_t sink_keys;\s+uint64_t reserved\[\d+\];)', r'\1 int64_t later;')],
     'clattn_problem had size'),
    ('a member of 4 bytes in the room', [('device.h', r'bool nv_wgmma;', 'bool nv_wgmma; int later;')],
     'clattn_capabilities'),
    ('two members that change places', [('attention.h', r'struct clattn_tensor lse, m, l;\n',
                                         'struct clattn_tensor m, lse, l;')], 'clattn_forward_args.lse was at'),
    ('a member of another type', [('problem.h', r'int unordered;', 'float unordered;')],
     'clattn_problem.unordered was "int unordered"'),
    ('a member that is gone', [('traffic.h', r'double least;', '')], 'clattn_traffic.least is gone'),
    ('a struct within that grows', [('problem.h', r'int64_t n_kv;\s+uint64_t reserved\[3\]',
                                     'int64_t n_kv; uint64_t reserved[4]')], 'struct clattn_shape had size'),
    ('an enumerator of another value', [('problem.h', r'CLATTN_BF16 = 2', 'CLATTN_BF16 = 3')], 'CLATTN_BF16 was 2'),
    ('an enumerator that is gone', [('problem.h', r', CLATTN_BF16 = 2|CLATTN_BF16 = 2,?', '')], 'CLATTN_BF16 is gone'),
    ('a status of another value', [('status.h', r'-20012', '-20013')], 'CLATTN_FILE_DAMAGED was -20012'),
    ('another limit', [('problem.h', r'CLATTN_MAX_D +512', 'CLATTN_MAX_D 256')], 'CLATTN_MAX_D was 512'),
    ('a function that is gone', [('version.h', r'CLATTN_API const char \*clattn_version\(void\);', '')],
     'clattn_version is gone'),
    ('a parameter of another type', [('attention.h', r'\(float p, uint64_t seed', '(double p, uint64_t seed')],
     'clattn_dropout_mask was'),
    ('a callback of other types', [('log.h', r'const char \*text\);', 'const char *text, int length);')],
     'clattn_log_function was'),
]


def self_test(include, compiler, work):
    """That each kind of change is seen, and that what may change is let through."""
    kept = os.path.join(work, 'kept')
    shutil.copytree(include, kept)
    for header in os.listdir(os.path.join(kept, 'clattn')):
        path = os.path.join(kept, 'clattn', header)
        with open(path, encoding='utf-8') as file:
            text = declarations.without_comments(file.read())
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    old, failures = Abi(kept, compiler, work), 0
    for name, changes, wanted in CHANGES:
        changed = copied(kept, work, changes)
        new = Abi(changed, compiler, work)
        said = list(compare(old, new))
        right = not said if wanted is None else any(line.startswith(wanted) or wanted in line for line in said)
        if right and wanted is None:
            said = abidiff(old, new, compiler, work)
            right = not said
        if not right:
            failures += 1
            print(f'{name}: wanted {wanted}, got {said}')
    print(f'{len(CHANGES)} changes, {failures} of them judged wrongly')
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--kept', required=True)
    parser.add_argument('--include', required=True)
    parser.add_argument('--self-test', action='store_true')
    parser.add_argument('compiler', nargs='+')
    arguments, flags = parser.parse_known_args()
    arguments.compiler += flags
    with tempfile.TemporaryDirectory() as work:
        if arguments.self_test:
            return self_test(arguments.include, arguments.compiler, work)
        new, broken = Abi(arguments.include, arguments.compiler, work), []
        versions = sorted(os.listdir(arguments.kept))
        for version in versions:
            old = Abi(os.path.join(arguments.kept, version), arguments.compiler, work)
            found = list(compare(old, new)) + abidiff(old, new, arguments.compiler, work)
            broken += [f'since {version}: {line}' for line in found]
    for line in broken:
        print(line)
    if broken:
        print('Programs built against an earlier release would break. How structs grow: include/clattn/version.h. Only '
              'before a release is cut may its kept headers be written anew: tests/abi/keep.py')
    print(f'compared with {", ".join(versions)}: {len(broken)} differences that break programs')
    return 1 if broken or not versions else 0


sys.exit(main())
