#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the Python module that mirrors the public headers: structs, enumerators, constants and functions for ctypes.

usage: generate.py DECLARATIONS_FOLDER INCLUDE_DIRECTORY OUTPUT

DECLARATIONS_FOLDER has declarations.py, which reads headers (tests/abi).
"""
import pathlib
import re
import sys

HEAD = '''# SPDX-License-Identifier: BSD-2-Clause
"""The public headers of clattn for ctypes. Made by generate.py: not to be edited."""
import ctypes as c
from typing import Dict, Optional, Tuple
'''

PLAIN = {
    'int': 'c_int', 'unsigned': 'c_uint', 'float': 'c_float', 'double': 'c_double', 'bool': 'c_bool', 'char': 'c_char',
    'int32_t': 'c_int32', 'int64_t': 'c_int64', 'uint8_t': 'c_uint8', 'uint32_t': 'c_uint32', 'uint64_t': 'c_uint64',
    'size_t': 'c_size_t', 'clattn_status': 'c_int', 'cl_uint': 'c_uint32'
}


def type_of(text):
    """The ctypes name of a C type. Handles and pointers are addresses, but for text."""
    text = re.sub(r'\bconst\b', '', text).strip()
    if text == 'void':
        return 'None'
    if re.fullmatch(r'char ?\*', text):
        return 'c.c_char_p'
    if '*' in text or re.fullmatch(r'cl_(mem|event|context|device_id|command_queue)|clattn_log_function', text):
        return 'c.c_void_p'
    if text.startswith('enum '):
        return 'c.c_int'
    if text.startswith('struct '):
        return text[len('struct '):]
    if text not in PLAIN:
        sys.exit(f'what is the type "{text}"?')
    return 'c.' + PLAIN[text]


def in_order(structs):
    """Names of structs, each behind those that it holds."""
    done = []

    def visit(name):
        for member in structs[name]:
            if member.type.startswith('struct ') and '*' not in member.type:
                visit(member.type[len('struct '):])
        if name not in done:
            done.append(name)

    for name in structs:
        visit(name)
    return done


def struct_lines(name, members, constants):
    yield f'\n\nclass {name}(c.Structure):\n    _fields_ = ['
    for member in members:
        kind = type_of(member.type)
        if member.count:
            kind += f' * {constants.get(member.count, member.count)}'
        yield f"        ('{member.name}', {kind}),"
    yield '    ]'


def value_of(text):
    """The value of a macro, as Python has it."""
    return re.sub(r'INT64_C\((.*?)\)', r'\1', re.sub(r'\b(0[xX][0-9a-fA-F]+|[0-9]+)[uU]\b', r'\1', text)).strip()


def enum_lines(text_of_headers):
    """Enumerators with their values, which all stand in the headers."""
    for name, value in re.findall(r'^\s*(CLATTN_\w+) = (-?\d+)', text_of_headers, flags=re.M):
        yield f'{name} = {value}'


def feature_lines(members, include):
    """Of each value of struct clattn_score_more the feature, and the names of a tensor's dimensions, which the comment
    in its line or before it says: "CLATTN_KEY_SCALE: fp32 [batch, heads, n_kv]"."""
    header = (pathlib.Path(include) / 'clattn' / 'score.h').read_text(encoding='utf-8')
    body = re.search(r'struct clattn_score_more {(.*?)\n};', header, flags=re.S).group(1)
    yield '\n# Values of features: the feature, and dimensions; of a number None.'
    yield 'SCORE_MORE: Dict[str, Tuple[int, Optional[Tuple[str, ...]]]] = {'
    for member in members:
        if member.name == 'reserved':
            continue
        said = re.search(rf'\b{member.name};[ \t]*/\*(.*?)\*/', body, flags=re.S) or \
            re.search(rf'/\*((?:(?!\*/).)*)\*/\s*[\w ]+\b{member.name};', body, flags=re.S)
        text = said.group(1) if said else ''
        feature, sizes = re.search(r'\bCLATTN_\w+', text), re.search(r'\[([^\]]*)\]', text)
        tensor = member.type == 'struct clattn_tensor'
        if not feature or (tensor and not sizes):
            sys.exit(f'clattn_score_more.{member.name}: what is "{text.strip()}"? Its comment names the feature, and '
                     'of a tensor the dimensions')
        dimensions = tuple(size.strip() for size in sizes.group(1).split(',')) if tensor else None
        yield f"    '{member.name}': ({feature.group(0)}, {dimensions}),"
    yield '}'


def function_lines(functions):
    yield '\n\n# Of each function the result and the parameters.\nFUNCTIONS = {'
    for name, types in functions.items():
        result, parameters = re.fullmatch(r'(.*) \((.*)\)', types).groups()
        kinds = [type_of(kind) for kind in parameters.split(', ') if kind != 'void']
        yield f"    '{name}': ({type_of(result)}, [{', '.join(kinds)}]),"
    yield '}'
    yield '\n# Functions that answer with a status.'
    yield 'STATUS = {' + ', '.join(f"'{name}'"
                                   for name, types in functions.items() if types.startswith('clattn_status ')) + '}'


def is_the_librarys(header):
    """mpi.h is of a library of its own, which the package does not bring."""
    return header != 'mpi.h'


def headers_text(declarations, include):
    return '\n'.join(
        declarations.without_comments(path.read_text(encoding='utf-8')).replace(', CLATTN_', ',\n CLATTN_').replace(
            '{CLATTN_', '{\n CLATTN_').replace('{ CLATTN_', '{\n CLATTN_')
        for path in sorted((pathlib.Path(include) / 'clattn').glob('*.h')) if is_the_librarys(path.name))


def main():
    folder, include, output = sys.argv[1:]
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    import declarations
    found = declarations.read(include, is_the_librarys)
    lines = [
        HEAD, *(f'{name} = {value_of(text)}' for name, text in found.constants.items()),
        *enum_lines(headers_text(declarations, include))
    ]
    for name in in_order(found.structs):
        lines += struct_lines(name, found.structs[name], found.constants)
    missing = [
        value for values in found.enums.values() for value in values
        if not any(line.startswith(f'{value} = ') for line in lines)
    ]
    if missing:
        sys.exit(f'enumerators without a value of their own: {", ".join(missing)}')
    lines += feature_lines(found.structs['clattn_score_more'], include)
    lines += function_lines(found.functions)
    with open(output, 'w', encoding='utf-8') as file:
        file.write('\n'.join(lines) + '\n')


main()
