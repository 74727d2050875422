#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Keeps the public headers of a release, without their comments, as what later ones are compared with (compatible.py).
Run once when a MINOR is released; what is kept never changes afterwards.

usage: keep.py [INCLUDE_DIRECTORY]     writes kept/MAJOR.MINOR/clattn/*.h beside this file
"""
import os
import re
import shutil
import sys

import declarations

HERE = os.path.dirname(os.path.abspath(__file__))


def stripped(text):
    text = re.sub(r'[ \t]+$', '', declarations.without_comments(text), flags=re.M)
    return '/* SPDX-License-Identifier: BSD-2-Clause */\n' + re.sub(r'\n{2,}', '\n', text).lstrip('\n')


def main():
    include = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, '..', '..', 'include')
    constants = declarations.read(include).constants
    version = f'{constants["CLATTN_VERSION_MAJOR"]}.{constants["CLATTN_VERSION_MINOR"]}'
    folder = os.path.join(HERE, 'kept', version, 'clattn')
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for header in sorted(os.listdir(os.path.join(include, 'clattn'))):
        with open(os.path.join(include, 'clattn', header), encoding='utf-8') as file:
            text = stripped(file.read())
        with open(os.path.join(folder, header), 'w', encoding='utf-8') as file:
            file.write(text)
    print(f'{folder}: the headers of {version}')


main()
