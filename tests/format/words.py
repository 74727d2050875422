#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether kernels, sources, manual pages and documents keep to the field's words: what stands in WORDS once had a private
name, which must not come back. Measured data keep the names of their time.

First lines with a private word are judged: each must be found.

usage: words.py ROOT
"""
import pathlib
import re
import sys

EVERYWHERE, KERNELS, CODE = ('cl', 'src', 'include', 'tools', 'tests', 'README.md', '.github'), ('cl',), ('cl', 'src')

# The private word, where it is looked for, and the field's.
WORDS = [
    (r'CLATTN_TURNS\b|\bturns=|\bHOPPER_TURN\b|\bpass_turns', EVERYWHERE, 'ping-pong (ping_pong)'),
    (r'CLATTN_BOXES\b|\bboxes=|hopper_boxes|[Ww]hole boxes', EVERYWHERE, 'TMA (tma)'),
    (r'HOPPER_MAP|CLA_MAP|hopper_map_|[.>]maps\b', EVERYWHERE, 'TMA descriptor'),
    (r'CLATTN_TEAMS\b|\bteams=', EVERYWHERE, 'pipeline: consumers, with stages of their own (pipelines)'),
    (r'\b[Tt]eams?\b|TEAM', CODE, 'pipeline'),
    (r'CLATTN_STEADY\b|\bsteady=|MATRIX_(UN)?STEADY', EVERYWHERE, 'stale maximum (stale_max)'),
    (r'\b[Ss]tead(y|iness)\b', CODE, 'stale maximum'),
    (r'BEND_|\bben[dt]_|_ben[dt]\b|\b[Bb]en[dt]\b', CODE, "softcap's polynomial (poly_, q_scaled)"),
    (r'RAMP|\bramps?\b|_ramp\b|\bramp_', CODE, "ALiBi's linear part (linear)"),
    (r'(KEEPS|OWN)_CALLS|_CALL_KEYS|\bmatrix_calls?\b|FOR_CALLS', CODE, 'Philox (KEEPS_PHILOX, matrix_philox, ...)'),
    (r'HOPPER_NOTES?_|hopper_(await_)?note\b|\b[QK]_NOTE\b', CODE, 'message'),
    (r'[.>]stays\b|\bstays;', CODE, 'persistent'),
    (r'\bpass(es|ed)? over (a|the|its|tiles|keys|blocks)\b', ('cl',), 'skip'),
    (r'DRAWS_ONCE|draws_once', EVERYWHERE, 'dropout_once'),
    (r'CLATTN_CHAINS|\bchains=|SUM_PLACES|\bsum_places', EVERYWHERE, 'dq_sums, sum_stages'),
    (r'CLATTN_FILLERS|HOPPER_OF_FILLERS', EVERYWHERE, 'loaders'),
    (r'SUMMERS|SUMMAND|hopper_sum_up', EVERYWHERE, 'reducers, which add parts of dQ'),
    (r'(TILE|BLOCK)_NOTE\b|hopper_(first|next)_turn|_turn\.(stage|parity)', EVERYWHERE, 'message; hopper_stage, its index and phase'),
    (r'hopper_(ways|bring|place)\b|[>.]owing', EVERYWHERE, 'hopper_loads, hopper_load, hopper_coordinates, skipped_more'),
    (r'MATRIX_(STORES_)?WORDS\b|leave_words', CODE, 'Philox'),
]

# The tables that name what is old, data, and what stays as it came.
LEFT_OUT = re.compile(r'^tests/data/|^tests/format/words\.py$|^tests/fuzz/corpus/|^tools/NEWS\.md$|/__pycache__/')
TEXTS = ('.c', '.h', '.cl', '.clh', '.py', '.sh', '.md', '.build', '.1', '.7', '.json')


def found_in(name, text):
    rows = [(re.compile(form), word) for form, folders, word in WORDS if name.split('/')[0] in folders and re.search(form, text)]
    return [(name, number, word, line.strip()) for number, line in enumerate(text.split('\n'), 1) for form, word in rows if form.search(line)]


def can_fail():
    wrong = ['#if CLATTN_TURNS', 'knobs = "boxes=1"', 'p.maps', 'of a team', 'rows are steady', 'view->bent', 'the ramp', 'UNIT_OWN_CALLS', 'draws_once=1',
             'CLATTN_CHAINS 2', 'knobs = "sum_places=1"', 'CLATTN_FILLERS / 32', 'SUMMAND(place, 0)', 'TILE_NOTE(count)', 'hopper_ways ways', 'matrix_leave_words(to)']
    return len(found_in('cl/forward_hopper.cl', '\n'.join(wrong))) == len(wrong) and not found_in('src/plan/text.c', 'items take turns\nmaximum')


def main():
    if not can_fail():
        print('what is wrong is not seen, or what is right is')
        return 1
    root, files, found = pathlib.Path(sys.argv[1]), 0, []
    for top in EVERYWHERE:
        paths = [root / top] if (root / top).is_file() else (root / top).rglob('*')
        for path in sorted(path for path in paths if path.is_file() and path.suffix in TEXTS):
            name = path.relative_to(root).as_posix()
            if not LEFT_OUT.search(name):
                files += 1
                found += found_in(name, path.read_text(encoding='utf-8'))
    for name, number, word, line in found:
        print(f'{name}:{number}: the word is {word}: {line[:100]}')
    print(f'{files} files, {len(found)} private words')
    return 1 if found or files < 400 else 0


if __name__ == '__main__':
    sys.exit(main())
