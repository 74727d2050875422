#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns a tuning file into one C file that defines cla_tuning_built_in[] (src/plan/tuning/tuning_db.h), or adds what a device's
tuning file has to the file that this is made from:

    tuning_table.py --output tuning_built_in.c src/plan/tuning/tuning_built_in.json
    tuning_table.py --add tuning.json src/plan/tuning/tuning_built_in.json

Of each class of problems on a device the record to take is kept: the one marked best, else the fastest. Added ones serve
any driver and any version of the kernels, and replace those of their class. What is wrong with a record a test finds,
through the library's own checks.
"""
import argparse
import json
import pathlib

HEAD = '''/* Made by tools/tuning_table.py from src/plan/tuning/tuning_built_in.json. */
#include "plan/tuning/tuning_db.h"
'''
ENUMS = {
    'pass': {'forward': 'CLATTN_FORWARD', 'backward': 'CLATTN_BACKWARD', 'accumulate': 'CLATTN_ACCUMULATE'},
    'dtype': {'fp32': 'CLATTN_FP32', 'fp16': 'CLATTN_FP16', 'bf16': 'CLATTN_BF16'},
    'state': {'ok': 'CLATTN_TUNING_OK'},
}
FORMAT = {'format': 'clattn tuning', 'version': 1}
CLASS = ('device', 'driver', 'pass', 'dtype', 'd', 'd_v', 'causal', 'n_q_up_to', 'n_kv_up_to', 'group')


def read(path):
    root = json.loads(path.read_text())
    if any(root.get(name) != value for name, value in FORMAT.items()):
        raise SystemExit(f'{path} is not a tuning file of version 1')
    return root['records']


def literal(name, value):
    if name in ENUMS:
        return ENUMS[name][value]
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return json.dumps(value)


def class_of(record):
    return tuple(record.get(name, 0) for name in CLASS)  # 'group' may be left out


def chosen(records):
    classes = {}
    for record in records:
        if record['state'] == 'ok':
            classes.setdefault(class_of(record), []).append(record)
    return [min(group, key=lambda record: (not record['best'], record['ms'])) for group in classes.values()]


def write_table(records, path):
    rows = ['    {' + ', '.join(f'.{name} = {literal(name, value)}' for name, value in record.items()) + '},\n'
            for record in records]
    # An array of C has at least one element; the count says how many are records.
    body = ''.join(rows) or '    {.d = 0},\n'
    path.write_text(f'{HEAD}\nconst struct clattn_tuning_record cla_tuning_built_in[] = {{\n{body}}};\n'
                    f'const int cla_tuning_built_in_count = {len(records)};\n')


def add(records, new):
    of_any_version = [{**record, 'driver': '*', 'kernels': '*', 'best': True} for record in chosen(new)]
    classes = {class_of(record): record for record in records + of_any_version}
    return list(classes.values())


def write_file(records, path):
    head = json.dumps(FORMAT)[:-1]
    rows = ',\n '.join(json.dumps(record) for record in records)
    path.write_text(f'{head}, "records": [\n {rows}\n]}}\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--output', type=pathlib.Path, help='the C file to write')
    what.add_argument('--add', type=pathlib.Path, help='the tuning file to add')
    parser.add_argument('input', type=pathlib.Path)
    arguments = parser.parse_args()
    records = read(arguments.input)
    if arguments.add:
        write_file(add(records, read(arguments.add)), arguments.input)
    else:
        write_table(chosen(records), arguments.output)


if __name__ == '__main__':
    main()
