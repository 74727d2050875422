# SPDX-License-Identifier: BSD-2-Clause
"""What the public headers declare: structs, enums, functions, constants. They are written plainly, so that a page of
regular expressions reads them; what it does not understand stops it."""
import os
import re


class Member:
    """`type name[count]`; count is the text between the brackets, '' for what is no array."""

    def __init__(self, kind, name, count):
        self.type, self.name, self.count = kind, name, count

    def text(self):
        return f'{self.type} {self.name}' + (f'[{self.count}]' if self.count else '')


class Declarations:
    def __init__(self):
        self.structs = {}    # name: [Member]
        self.enums = {}      # name, or the first enumerator where it has none: [enumerator]
        self.functions = {}  # name: the types, 'result (parameter, parameter)'
        self.prototypes = {}  # name: the declaration as it stands
        self.constants = {}  # macros that stand for a value: their text
        self.callbacks = {}  # name of a function type: its types


def squeeze(text):
    text = re.sub(r'\s+', ' ', text).strip()
    return re.sub(r'\s*([*()\[\],])\s*', r'\1', text).replace(',', ', ').replace('*', ' *').replace('  ', ' ')


def without_comments(text):
    return re.sub(r'/\*.*?\*/', '', text, flags=re.S)


def type_of(parameter):
    """A parameter without its name."""
    parameter = squeeze(parameter)
    match = re.fullmatch(r'(.*[\s*])(\w+)', parameter)
    known = ('int', 'float', 'double', 'char', 'void', 'bool')
    return match.group(1).strip() if match and match.group(2) not in known else parameter


def types_of(parameters):
    return ', '.join(type_of(parameter) for parameter in parameters.split(','))


def members_of(body):
    members = []
    for statement in filter(None, (squeeze(part) for part in body.split(';'))):
        callback = re.fullmatch(r'(.+?)\(\s*\*(\w+)\)\((.*)\)', statement)
        if callback:
            kind = f'{callback.group(1).strip()} (*)({types_of(callback.group(3))})'
            members.append(Member(kind, callback.group(2), ''))
            continue
        first, *others = statement.split(',')
        match = re.fullmatch(r'(.*?)([ *]*)(\w+)(?:\[(\w+)\])?', first)
        if not match or not match.group(1):
            raise SystemExit(f'what does "{statement}" declare?')
        base = match.group(1).strip()
        for declarator in [first[len(match.group(1)):], *others]:
            stars, name, count = re.fullmatch(r'\s*([ *]*)(\w+)(?:\[(\w+)\])?', declarator).groups()
            members.append(Member(base + ' ' * ('*' in stars) + stars.replace(' ', ''), name, count or ''))
    return members


def read(include, wanted=lambda header: True):
    """The declarations of all headers below a directory, or of those that are wanted."""
    found = Declarations()
    folder = os.path.join(include, 'clattn')
    for header in filter(wanted, sorted(os.listdir(folder))):
        with open(os.path.join(folder, header), encoding='utf-8') as file:
            text = without_comments(file.read())
        found.constants.update(re.findall(r'^#define (CLATTN_\w+)[ \t]+([\w(].*)$', text, flags=re.M))
        text = re.sub(r'^\s*#.*$', '', text.replace('\\\n', ' '), flags=re.M)
        for name, body in re.findall(r'\bstruct (clattn_\w+)\s*{(.*?)}\s*;', text, flags=re.S):
            found.structs[name] = members_of(body)
        for name, body in re.findall(r'\benum(?: (clattn_\w+))?\s*{(.*?)}\s*;', text, flags=re.S):
            values = re.findall(r'(CLATTN_\w+)\s*(?:=|,|$)', squeeze(body))
            found.enums[name or values[0]] = values
        for result, name, parameters in re.findall(r'CLATTN_API\s+([^;]*?)\b(clattn_\w+)\(([^;]*)\)\s*;', text):
            found.functions[name] = f'{squeeze(result)} ({types_of(parameters)})'
            found.prototypes[name] = f'{squeeze(result)} {name}({squeeze(parameters)})'
        for result, name, parameters in re.findall(r'typedef\s+([^;]*?)\(\*(clattn_\w+)\)\(([^;]*)\)\s*;', text):
            found.callbacks[name] = f'{squeeze(result)} ({types_of(parameters)})'
    for name in ('CLATTN_API', 'CLATTN_BEGIN_DECLS'):
        found.constants.pop(name, None)
    return found


def reserved_paths(found, name, prefix=''):
    """The reserved members of a struct and of those inside it: 'q.layout.reserved', ..."""
    for member in found.structs[name]:
        if member.name == 'reserved':
            yield prefix + 'reserved'
        inner = re.fullmatch(r'struct (clattn_\w+)', member.type)
        if not inner:
            continue
        count = int(found.constants.get(member.count, member.count or 1))
        for index in range(count):
            place = f'{member.name}[{index}]' if member.count else member.name
            yield from reserved_paths(found, inner.group(1), f'{prefix}{place}.')
