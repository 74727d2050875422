#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints the version that a header has, MAJOR.MINOR.PATCH. usage: version.py HEADER"""
import re
import sys

with open(sys.argv[1], encoding='utf-8') as header:
    print('.'.join(re.findall(r'^#define CLATTN_VERSION_[A-Z]+ +(\d+)', header.read(), flags=re.M)))
