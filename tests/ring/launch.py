# SPDX-License-Identifier: BSD-2-Clause
"""How tests start ranks: more of them than cores, perhaps as root, without other hosts."""
import os
import shutil
import sys


def find(names):
    """The first of these launchers that is there, with what it needs; ends with 77 where none is."""
    path = next((found for name in names.split(',') if (found := shutil.which(name))), None)
    if not path:
        print(f'none of {names} is there: skipped')
        sys.exit(77)
    is_open_mpi = 'openmpi' in os.path.realpath(path) or 'orterun' in os.path.realpath(path)
    return [path, '--oversubscribe', '--mca', 'mpi_yield_when_idle', '1'] if is_open_mpi else [path]


def environment():
    """Open MPI refuses root without its leave, and in containers copies between processes by ptrace fail; PoCL would take
    all cores for each rank."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                OMPI_MCA_btl_vader_single_copy_mechanism='none', OMPI_MCA_btl='self,vader', OMPI_MCA_plm='isolated',
                POCL_MAX_PTHREAD_COUNT='1')
