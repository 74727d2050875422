#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The tests that failed in Meson's logs (testlog.json), each with the end of what it printed: what a reader of the last screen needs.

usage: failed.py [--names] LOG...        --names: only their names, a line each
"""
import json
import pathlib
import sys

GOOD = {'OK', 'SKIP', 'EXPECTEDFAIL'}
LINES = 25


def failures(paths):
    for path in paths:
        for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines():
            row = json.loads(line)
            if row['result'] not in GOOD:
                yield pathlib.Path(path).parent.name, row


def show(build, row):
    print(f'\n{row["name"]} in {build}: {row["result"]}, status {row["returncode"]}, {row["duration"]:.0f} s')
    for stream in ('stdout', 'stderr'):
        for text in row.get(stream, '').splitlines()[-LINES:]:
            print(f'    {text}')


def main():
    names = '--names' in sys.argv[1:]
    logs = [word for word in sys.argv[1:] if word != '--names']
    if not logs:
        sys.exit(__doc__)
    for build, row in failures(logs):
        if names:
            print(row['name'].split(' / ', 1)[-1])
        else:
            show(build, row)


main()
