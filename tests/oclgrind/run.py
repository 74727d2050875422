#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a program under Oclgrind, pretending devices of several local memories and work-group limits.

usage: run.py PROGRAM PASSES [--local KB,KB,...] [--group N,N,...]

PROGRAM runs on each of these memories with one of the limits, by turns (with CLATTN_TEST_FULL=1: with all of them), PASSES (the other passes and the score modifications) on the smallest and on one of 32 KB, which share the sets of features (with CLATTN_TEST_FULL=1 each has all). A run passes where the program succeeds and Oclgrind's log stays empty: Oclgrind itself exits with 0 whatever it finds.
"""
import argparse
import concurrent.futures
import glob
import os
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
FEATURE_SETS = 5  # of PASSES
RUNTIMES = ('/usr/lib/oclgrind/liboclgrind-rt-icd.so', '/usr/lib/*/oclgrind/liboclgrind-rt-icd.so',
            '/usr/local/lib/liboclgrind-rt-icd.so', '/usr/lib/*/liboclgrind-rt-icd.so')
FULL = os.environ.get('CLATTN_TEST_FULL') == '1'
LIMIT_SECONDS = 1000 if FULL else 300


def find_runtime():
    for pattern in RUNTIMES:
        for path in glob.glob(pattern):
            return path
    return None


# Oclgrind has neither LLVM's freeze instructions, which optimising makes of the matrix skeletons' text, nor its marks of
# what does not alias, which inlining leaves.
UNOPTIMISED = '-cl-opt-disable -Drestrict= -DCLATTN_INLINE=static'


def run(program, runtime, directory, local_kb, group, *options):
    log = os.path.join(directory, '-'.join([str(local_kb), str(group), *options]) + '.log')
    environment = dict(os.environ, OCL_ICD_VENDORS=runtime, OCLGRIND_DATA_RACES='1', OCLGRIND_UNINITIALIZED='1',
                       OCLGRIND_CHECK_API='1', OCLGRIND_LOG=log, OCLGRIND_MAX_ERRORS='20',
                       OCLGRIND_LOCAL_MEM_SIZE=str(local_kb * 1024), OCLGRIND_MAX_WGSIZE=str(group),
                       CLATTN_CACHE_DIR='')
    if 'matrix' in options or 'sums' in options:
        environment['OCLGRIND_BUILD_OPTIONS'] = UNOPTIMISED
    environment.pop('OPENCL_LAYERS', None)
    environment.pop('CLATTN_TEST_DEVICE', None)
    start = time.monotonic()
    try:
        done = subprocess.run([program, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=LIMIT_SECONDS, text=True)
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired:
        output, code = 'timed out', 1
    found = ''
    if os.path.exists(log):
        with open(log, encoding='utf-8', errors='replace') as file:
            found = file.read().strip()
    return code, output, found, time.monotonic() - start


def main():
    def numbers(text):
        return [int(part) for part in text.split(',')]

    parser = argparse.ArgumentParser()
    parser.add_argument('program')
    parser.add_argument('passes')
    parser.add_argument('--local', type=numbers, default=[4, 8, 16, 32, 48, 64])
    parser.add_argument('--group', type=numbers, default=[64, 256, 1024])
    arguments = parser.parse_args()
    runtime = find_runtime()
    if not runtime:
        print('skipped: Oclgrind is not installed')
        return SKIPPED
    failures = 0
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = [(arguments.passes, 128, 256, 'backward', 'sums', str(n)) for n in range(FEATURE_SETS if FULL else 0)]
        programs += [(arguments.passes, 32, 256, name, 'matrix') for name in ('backward', 'state', 'features')
                     if name == 'backward' or FULL]
        for local_kb, group, share in ((32, 256, 'even'), (4, 64, 'odd')):
            programs += [(arguments.passes, local_kb, group, name, *([] if FULL else [share])) for name in ('backward', 'state', 'features', 'splits')]
        programs.append((arguments.program, max(arguments.local), max(arguments.group), 'sweep'))
        programs += [(arguments.program, local_kb, group) for i, local_kb in enumerate(arguments.local)
                     for j, group in enumerate(arguments.group) if FULL or i % len(arguments.group) == j]
        runs = [(each, pool.submit(run, each[0], runtime, directory, *each[1:])) for each in programs]
        for (_, local_kb, group, *options), future in runs:
            code, output, found, seconds = future.result()
            good = code == 0 and not found
            failures += not good
            print(f'{", ".join([f"{local_kb} KB", f"{group} work-items", *options])}: '
                  f'{"passed" if good else "FAILED"}, {seconds:.1f} s')
            print(output if not found else f'{output}\nOclgrind says:\n{found}', flush=True)
    return 1 if failures else 0


sys.exit(main())
