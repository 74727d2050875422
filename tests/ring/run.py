#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a program as several ranks, by the launcher of the MPI that it was built with: first as the first number of ranks,
which is 1 so that one process compiles the kernels for all, then as the others. Skipped (77) where there is no launcher.

usage: run.py LAUNCHERS RANKS PROGRAM [ARGUMENT...]     LAUNCHERS and RANKS are lists with commas: mpirun.mpich,mpirun 1,3,8
"""
import subprocess
import sys

import launch


def main():
    launchers, ranks, command = sys.argv[1], [int(number) for number in sys.argv[2].split(',')], sys.argv[3:]
    launcher = launch.find(launchers)
    for number in ranks:
        done = subprocess.run([*launcher, '-n', str(number), *command], env=launch.environment(), timeout=600, check=False)
        print(f'{number} ranks: exit status {done.returncode}')
        if done.returncode:
            return 77 if done.returncode == 77 else 1
    return 0


sys.exit(main())
