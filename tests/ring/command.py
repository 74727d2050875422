#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`clattn ring` beside `clattn run` on the same files: outputs and gradients; what is wrong names the rank and leaves no file;
`clattn bench --grid ring`.

usage: command.py LAUNCHERS RANKS CLATTN
"""
import array
import json
import math
import os
import subprocess
import sys
import tempfile

import launch

HEADS, KV_HEADS, ROWS, KEYS, D = 4, 2, 21, 34, 8
OUTPUTS = {'out': ROWS, 'lse': ROWS, 'dq': ROWS, 'dk': KEYS, 'dv': KEYS, 'dbias': ROWS, 'dsink': 1}


def write(path, shape):
    """Numbers that look random."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }" % ', '.join(map(str, shape))
    header = header.ljust(-(10 + len(header) + 1) % 64 + len(header)) + '\n'
    with open(path, 'wb') as file:
        file.write(b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header.encode())
        file.write(array.array('f', (math.sin(1.7 * i * i + len(path)) for i in range(math.prod(shape)))).tobytes())


def read(path):
    with open(path, 'rb') as file:
        data = file.read()
    length = int.from_bytes(data[8:10], 'little')
    return data[:10 + length], array.array('f', data[10 + length:])


def differs(one, other):
    """Which outputs of two folders do."""
    for name in OUTPUTS:
        (header, values), (other_header, other_values) = (read(os.path.join(folder, f'{name}.npy')) for folder in (one, other))
        if header != other_header or len(values) != len(other_values) or \
                any(not abs(a - b) <= 3e-5 * (1 + abs(b)) for a, b in zip(values, other_values)):
            yield name


def outputs(folder):
    os.mkdir(folder)
    return [word for name in OUTPUTS for word in (f'--{name}', os.path.join(folder, f'{name}.npy'))]


def check_layout(launcher, clattn, work, layout):
    def shape(heads, rows):
        return (1, heads, rows, D) if layout == 'bhnd' else (1, rows, heads, D)
    files = {'q': shape(HEADS, ROWS), 'k': shape(KV_HEADS, KEYS), 'v': shape(KV_HEADS, KEYS), 'grad-out': shape(HEADS, ROWS),
             'bias': (1, HEADS, ROWS, KEYS), 'sink': (HEADS,)}
    os.mkdir(os.path.join(work, layout))
    common = ['--causal', '--layout', layout, '--quiet']
    passing = ['--passing', 'kv' if layout == 'bhnd' else 'q']
    for name, sizes in files.items():
        path = os.path.join(work, layout, f'{name}.npy')
        write(path, sizes)
        common += [f'--{name}', path]
    alone, shared, failed = (os.path.join(work, layout, name) for name in ('alone', 'shared', 'failed'))
    subprocess.run([clattn, 'run', *common, *outputs(alone)], check=True, timeout=300)
    subprocess.run([*launcher, clattn, 'ring', *common, *passing, *outputs(shared)], env=launch.environment(), check=True, timeout=300)
    wrong = list(differs(shared, alone))
    refused = subprocess.run([*launcher, clattn, 'ring', *common, *outputs(failed), '--k', os.path.join(work, layout, 'sink.npy')],
                             env=launch.environment(), stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    print(f'{layout}: {len(OUTPUTS)} outputs, other than on one device: {wrong}; refused with {refused.returncode}')
    if 'clattn ring: ' not in refused.stderr or os.listdir(failed):
        print(refused.stderr, os.listdir(failed))
    return not wrong and refused.returncode and 'clattn ring: ' in refused.stderr and not os.listdir(failed)


def check_bench(launcher, clattn, ranks, passing):
    """Each pass is measured, and bytes are those of clattn-ring(1), both ways: fewer where Q passes, of 96 rows on 192 keys."""
    heads, d, rows, keys = 2, 8, 96, 192
    command = [*launcher, clattn, 'bench', '--grid', 'ring', '--n', str(keys), '--n-q', str(rows), '--d', str(d), '--heads', str(heads),
               '--pass', 'both', '--repetitions', '2', '--quiet', '--json', '--passing', passing]
    done = subprocess.run(command, env=launch.environment(), stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    measured = json.loads(done.stdout or '[]')
    of_keys = (ranks - 1) * heads * keys * 2 * d * 4
    expected = [('forward', of_keys, (ranks - 1) * heads * rows * (d * 4 + 4 * d + 8)),
                ('backward', 2 * of_keys, (ranks - 1) * heads * rows * (4 * d * 4 + 8))]
    right = [row['pass'] for row in measured] == [name for name, _, _ in expected] and \
        all(row['ranks'] == ranks and row['median_ms'] > 0 and 0 <= row['waited_share'] <= 1 and
            row['passing'] == ('kv' if passing == 'kv' else 'q') and
            math.isclose(row['kv_mb'], kv * 1e-6, rel_tol=1e-4) and math.isclose(row['q_mb'], q * 1e-6, rel_tol=1e-4) and
            math.isclose(row['sent_mb'], row[f'{row["passing"]}_mb'], rel_tol=1e-4) for row, (_, kv, q) in zip(measured, expected))
    print(f'bench, passing {passing}: exit status {done.returncode}, {len(measured)} rows: {"right" if right else measured}')
    return right and not done.returncode


def main():
    launcher, clattn = [*launch.find(sys.argv[1]), '-n', sys.argv[2]], os.path.abspath(sys.argv[3])
    usage = subprocess.run([clattn, 'ring', '--q'], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    with tempfile.TemporaryDirectory() as work:
        right = [check_layout(launcher, clattn, work, layout) for layout in ('bhnd', 'bnhd')]
    right += [check_bench(launcher, clattn, int(sys.argv[2]), passing) for passing in ('kv', 'auto')]
    return 0 if all(right) and usage.returncode == 2 and usage.stderr.startswith('clattn ring: ') else 1


sys.exit(main())
