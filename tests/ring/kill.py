#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A rank that is killed in the middle of a call: the command ends with a status that is not 0 within 10 seconds, and leaves no
process.

usage: kill.py LAUNCHERS RANKS PROGRAM
"""
import os
import subprocess
import sys
import time

import launch


def left(marker):
    """Processes whose environment has the marker."""
    found = []
    for entry in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{entry}/environ', 'rb') as file:
                if marker.encode() in file.read() and int(entry) != os.getpid():
                    found.append(int(entry))
        except OSError:
            pass
    return found


def main():
    launcher, ranks, program = launch.find(sys.argv[1]), sys.argv[2], sys.argv[3]
    marker = f'CLATTN_RING_KILL={os.getpid()}'
    environment = launch.environment() | dict([marker.split('=')])
    subprocess.run([*launcher, '-n', ranks, program], env=environment, check=True, timeout=120)  # kernels are there then
    for number in ('1', '3', '6'):
        with subprocess.Popen([*launcher, '-n', ranks, program, 'kill', number], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
            told = any('killed' in line for line in running.stdout)  # it is printed right before
            begun = time.monotonic() if told else 0
            running.wait(timeout=60)
        seconds = time.monotonic() - begun
        time.sleep(0.5)
        remaining = left(marker)
        print(f'rank 1 killed at its message {number}: status {running.returncode} after {seconds:.1f} s, {len(remaining)} processes left')
        if not running.returncode or seconds > 10 or remaining:
            return 1
    return 0


sys.exit(main())
