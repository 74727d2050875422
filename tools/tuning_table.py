#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns a tuning file into one C file that defines cla_tuning_built_in[] (src/plan/tuning_db.h).

Of each class of problems on a device the record to take is kept: the one marked best, else the fastest. What is wrong
with a record a test finds, through the library's own checks.
"""
import argparse
import json
import pathlib

HEAD = '''/* Made by tools/tuning_table.py from src/plan/tuning_built_in.json. */
#include "plan/tuning_db.h"
'''
ENUMS = {
    'pass': {'forward': 'CLATTN_FORWARD', 'backward': 'CLATTN_BACKWARD', 'accumulate': 'CLATTN_ACCUMULATE'},
    'dtype': {'fp32': 'CLATTN_FP32', 'fp16': 'CLATTN_FP16', 'bf16': 'CLATTN_BF16'},
    'state': {'ok': 'CLATTN_TUNING_OK'},
}
CLASS = ('device', 'driver', 'pass', 'dtype', 'd', 'd_v', 'causal', 'n_q_up_to', 'n_kv_up_to')


def literal(name, value):
    if name in ENUMS:
        return ENUMS[name][value]
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return json.dumps(value)


def chosen(records):
    classes = {}
    for record in records:
        if record['state'] == 'ok':
            classes.setdefault(tuple(record[name] for name in CLASS), []).append(record)
    return [min(group, key=lambda record: (not record['best'], record['ms'])) for group in classes.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--output', required=True, type=pathlib.Path)
    parser.add_argument('input', type=pathlib.Path)
    arguments = parser.parse_args()
    root = json.loads(arguments.input.read_text())
    if root['format'] != 'clattn tuning' or root['version'] != 1:
        parser.error(f'{arguments.input} is not a tuning file of version 1')
    records = chosen(root['records'])
    rows = ['    {' + ', '.join(f'.{name} = {literal(name, value)}' for name, value in record.items()) + '},\n'
            for record in records]
    # An array of C has at least one element; the count says how many are records.
    body = ''.join(rows) or '    {.d = 0},\n'
    arguments.output.write_text(f'{HEAD}\nconst struct clattn_tuning_record cla_tuning_built_in[] = {{\n{body}}};\n'
                                f'const int cla_tuning_built_in_count = {len(records)};\n')


if __name__ == '__main__':
    main()
