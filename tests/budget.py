#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How long each suite took beside its budget, which the table in tests/README.md has: the sum of its tests' own seconds, as
Meson's logs (testlog.json) have them, and the longest tests of a suite that is above.

usage: budget.py [--strict] LOG...        --strict: exit status 1 where a suite is above its budget
"""
import collections
import json
import pathlib
import re
import sys

README = pathlib.Path(__file__).resolve().parent / 'README.md'


def budgets():
    table = README.read_text(encoding='utf-8').split('| suite | budget |')[1].split('\n\n')[0]
    return {name: int(seconds) for name, seconds in re.findall(r'^\| (\w+) \| (\d+) s', table, flags=re.M)}


def read(paths):
    """The tests of each suite, as (seconds, name). A test of two suites counts for the first that has a budget."""
    suites = collections.defaultdict(list)
    for path in paths:
        for line in pathlib.Path(path).read_text(encoding='utf-8').splitlines():
            row = json.loads(line)
            where, name = row['name'].split(' / ', 1)
            own = where.split(':')[-1].split('+')
            suites[next((suite for suite in own if suite in budgets()), own[0])].append((row['duration'], name))
    return suites


def main():
    words = [word for word in sys.argv[1:] if word != '--strict']
    if not words:
        sys.exit(__doc__)
    above = 0
    for suite, tests in sorted(read(words).items()):
        took, allowed = sum(seconds for seconds, _ in tests), budgets().get(suite)
        over = allowed is not None and took > allowed
        above += over
        print(f'{suite:10} {took:6.0f} s of {allowed if allowed is not None else "?":>5} s{"  ABOVE" if over else ""}')
        for seconds, name in sorted(tests, reverse=True)[:5 if over else 0]:
            print(f'           {seconds:6.0f} s {name}')
    return 1 if above and '--strict' in sys.argv else 0


sys.exit(main())
