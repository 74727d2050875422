#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether the Python package and its tests keep to PEP 8, in 120 columns, by pycodestyle (python3-pycodestyle), and nothing
is imported in vain. Without pycodestyle the test is skipped.

usage: pep8.py ROOT
"""
import ast
import os
import sys
import tempfile

import sources

SKIPPED = 77
# pycodestyle's own list of what is left to taste; names that mathematics has (l); imports behind what decides about them.
LEFT_OUT = ('E121', 'E123', 'E126', 'E226', 'E24', 'E704', 'W503', 'W504', 'E741', 'E402')


def unused_imports(path):
    """Names that a file imports and does not use; what a package's __init__.py imports is for others."""
    with open(path, encoding='utf-8') as file:
        tree = ast.parse(file.read())
    imported = {(name.asname or name.name).split('.')[0]
                for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for name in node.names}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [] if path.endswith('__init__.py') else sorted(imported - used)


def faults(style, path):
    found = [f'{path}: {name} is imported and not used' for name in unused_imports(path)]
    report = style.init_report()
    style.input_file(path)
    return found + [
        f'{path}: {code} {report.messages[code]}' for code in sorted(report.counters) if code in report.messages
    ]


def main():
    root = sys.argv[1]
    try:
        import pycodestyle
    except ImportError:
        print('pycodestyle is not installed: not checked')
        return SKIPPED
    style = pycodestyle.StyleGuide(max_line_length=120, ignore=LEFT_OUT, quiet=1)
    with tempfile.TemporaryDirectory() as work:
        wrong = os.path.join(work, 'wrong.py')
        with open(wrong, 'w', encoding='utf-8') as file:
            file.write('import os\nx=1\n' + '#' * 121 + '\n')
        if len(faults(style, wrong)) < 3:
            print('what is wrong is not seen')
            return 1
    paths = sources.files(root, ('tools/python', 'tests/python'), ('.py', ))
    found = [line for path in paths for line in faults(style, path)]
    print('\n'.join([*found, f'{len(paths)} files, {len(found)} faults']))
    return 1 if found or not paths else 0


sys.exit(main())
