#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The structs of the Python package against the C compiler: the size of each, of each member the place and the size,
and the value of each enumerator and constant.

usage: test_structs.py PACKAGE INCLUDE DECLARATIONS_FOLDER COMPILER...
"""
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True


def load(path):
    spec = importlib.util.spec_from_file_location('clattn_abi', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def questions(found):
    """Name and C expressions of each fact."""
    for name, members in found.structs.items():
        yield name, [f'sizeof(struct {name})', f'_Alignof(struct {name})']
        for member in members:
            yield f'{name}.{member.name}', [
                f'offsetof(struct {name}, {member.name})', f'sizeof(((struct {name} *)0)->{member.name})'
            ]
    for value in [value for values in found.enums.values() for value in values] + list(found.constants):
        yield value, [value]


def ask_compiler(found, compiler, include, work):
    lines = ['#include <clattn/clattn.h>', '#include <stddef.h>', '#include <stdio.h>', 'int main(void)', '{']
    for name, values in questions(found):
        shown = ', '.join(f'(long long)({value})' for value in values)
        lines.append(f'    printf("{name}:{" %lld" * len(values)}\\n", {shown});')
    program = os.path.join(work, 'ask')
    subprocess.run([*compiler, '-std=c11', '-w', '-I', include, '-x', 'c', '-', '-o', program],
                   input='\n'.join([*lines, '    return 0;', '}', '']),
                   text=True,
                   check=True)
    said = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {line.split(':')[0]: [int(n) for n in line.split(':')[1].split()] for line in said.splitlines()}


def ask_python(abi, name):
    struct, _, member = name.partition('.')
    kind = getattr(abi, struct, None)
    if member:
        field = getattr(kind, member, None)
        return field and [field.offset, field.size]
    return [ctypes.sizeof(kind), ctypes.alignment(kind)] if isinstance(kind, type) else [kind]


def main():
    package, include, folder, *compiler = sys.argv[1:]
    sys.path.insert(0, folder)
    import declarations
    abi, found = load(os.path.join(package, '_abi.py')), declarations.read(include, lambda name: name != 'mpi.h')
    with tempfile.TemporaryDirectory() as work:
        facts = ask_compiler(found, compiler, include, work)
    wrong = {name: (said, ask_python(abi, name)) for name, said in facts.items() if said != ask_python(abi, name)}
    for name, (compiled, mirrored) in wrong.items():
        print(f'{name}: the compiler says {compiled}, the package {mirrored}')
    abi.clattn_shape = abi.clattn_tensor
    if facts['clattn_shape'] == ask_python(abi, 'clattn_shape'):
        sys.exit('a struct of another size is not seen')
    print(f'{len(facts)} facts of {len(found.structs)} structs, {len(wrong)} wrong')
    return 1 if wrong or len(found.structs) < 20 or set(abi.FUNCTIONS) != set(found.functions) else 0


sys.exit(main())
