#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether kernels ask the matrix unit for its sizes (UNIT_PIECE, UNIT_LANES, cl/unit/contract.clh): a 16 or 32 outside the
units' headers is something else, and ALLOWED says what. Each row of ALLOWED has to be met.

First lines with such a number are judged: each must be found.

usage: fragments.py ROOT
"""
import pathlib
import re
import sys

NUMBER = re.compile(r'(?<![\w.])(?:16|32)[uU]?\b(?!\.)')

# The units themselves.
OWN_UNIT = re.compile(r'unit/')

# Files, a form that has the number, and what it is.
ALLOWED = [
    (r'', r'(<<|>>) 16\b|>> 32\b', 'half of a word'),
    (r'common/matrix_tiles', r'#define MATRIX_(CHUNK|FLAG)_BYTES +16\b', 'bytes that are read or written at once'),
    (r'', r'aligned\(16\)|% 16 == 0\b', 'bytes that are read or written at once'),
    (r'_cpu|common/cpu_|fast/dropout_simt|common/cpu_gradients', r'[/%] 32\b|n \* 32 |bit < 32 ', 'bits of a word'),
    (r'common/cpu_(panels|vectors)', r'SHUFFLE\(.*\)|W / 16|MICRO > 32\b', 'numbers of a vector, and columns at a time, of a CPU'),
    (r'common/cpu_tiles', r'KEPT_KEYS / 16|16 \* piece|% 2 \* 16', 'keys that one word of dropout has (common/philox.clh)'),
    (r'common/decode_', r'\b(16|32)u?\b', 'numbers of a vector of a CPU, and of a block of ggml'),
    (r'softmax_rows', r'\[16\]|i < 16|[+]=? 16', 'numbers of a vector'),
    (r'lanes|peak_fma|rows|common/((cpu_)?vectors|formats)', r'VECTOR_WIDTH == 16|must be .*16"', 'numbers of a vector'),
    (r'peak_', r'ACCUMULATORS > (16|32)', 'accumulators'),
    (r'probe\.cl', r'data [+] 16|i < 16', 'numbers that are tried'),
    (r'common/simt_tiles', r'SIMT_STREAM < 32 [?] 32 / SIMT_STREAM', 'elements between two additions to a sum'),
    (r'common/formats', r'#define CLATTN_(BLOCK|HALF_OF_\d+) +32\b|HALF_OF_16\b', 'elements of a block of ggml, and of vectors'),
    (r'backward_shares', r'enum \{ WARP_KEYS = 16, WARP_ITEMS = 32 \}', 'how backward_hopper.cl left its parts'),
    (r'common/hopper_backward_work', r'> 4 [?] 16 : 8', 'messages that are kept'),
    (r'common/matrix_join', r'JOIN_MOST 16\b', 'states that are read at a time'),
    (r'common/hopper_tiles', r'HOPPER_MESSAGE_BYTES 16\b|chunks <= 16 [?] 16 : 32|multiple of 32 up to', 'bytes of a message; chunks, rounded up'),
    (r'common/hopper_forward_walk', r'HOPPER_ROUNDS 32\b', 'bits of a word'),
    (r'source/hopper_tma', r'HOPPER_DESCRIPTOR_WORDS 32\b|\* 2 : 16\b', 'a TMA descriptor, and a stride that it takes'),
    (r'editor', r'#define CLATTN_\w+ +(16|32)', 'constants that a planner would write'),
]


def without_comments(text):
    kept = re.sub(r'/\*.*?\*/', lambda comment: '\n' * comment[0].count('\n'), text, flags=re.S)
    return re.sub(r'//.*', '', kept)


def found_in(name, text, met):
    """Lines with a number that no row explains; rows that do explain one are added to `met`."""
    found = []
    for number, line in enumerate(without_comments(text).split('\n'), 1):
        left = line
        for row, (files, form, _) in enumerate(ALLOWED):
            if re.search(files, name):
                left, count = re.subn(form, '', left)
                met.update([row] if count and NUMBER.search(line) else [])
        if NUMBER.search(left):
            found.append((name, number, line.strip()))
    return found


def can_fail():
    wrong = ['a[r] + 16 * r * PITCH', 'x / 32;', 'lane % 32u', 'KEYS / WARPS / 16)']
    right = ['x << 16;', '/* 16 x 16 */', 'UNIT_PIECE * r', 'x + 160;', 'x16']
    return len(found_in('common/fused_own.clh', '\n'.join(wrong), set())) == len(wrong) and not found_in('common/fused_own.clh', '\n'.join(right), set())


def main():
    if not can_fail():
        print('what is wrong is not seen, or what is right is')
        return 1
    root = pathlib.Path(sys.argv[1]) / 'cl'
    met, found, files = set(), [], 0
    for path in sorted(root.rglob('*.cl*')):
        name = path.relative_to(root).as_posix()
        if not OWN_UNIT.search(name):
            files += 1
            found += found_in(name, path.read_text(encoding='utf-8'), met)
    for name, number, line in found:
        print(f'cl/{name}:{number}: a size of the matrix unit? {line}')
    unmet = [ALLOWED[row] for row in range(len(ALLOWED)) if row not in met]
    for row in unmet:
        print(f'nothing has this form any more: {row}')
    print(f'{files} files, {len(found)} numbers that nothing explains')
    return 1 if found or unmet or files < 50 else 0


if __name__ == '__main__':
    sys.exit(main())
