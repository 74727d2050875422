#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the suites that make sense on a driver for CPUs, and says what passed, failed, was skipped, and why.

    tests/drivers/run.py pocl                              of Debian
    tests/drivers/run.py rusticl                           Mesa's, on llvmpipe, of Debian (mesa-opencl-icd)
    tests/drivers/run.py oclgrind                          Debian's; an interpreter, slow: its own suite and single tests
    tests/drivers/run.py intel --icd FILE.icd              Intel's runtime; FILE.icd has the path of libintelocl.so:
                                                           pip install intel-opencl-rt intel-cmplr-lib-rt
    tests/drivers/run.py pocl --root FOLDER                what another Debian has, by chroot (as root):
                                                           debootstrap --include=pocl-opencl-icd,ocl-icd-libopencl1,libclblast1,
                                                           libjansson4,libcmocka0,libxxhash0,python3,python3-numpy trixie FOLDER

--quick: a part that takes half a minute. --build DIRECTORY: where it is built (default: build-drivers). Further arguments are
meson's: names of tests in place of the suites, --num-processes. The exit status says whether no test failed.
"""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
SYSTEM = (pathlib.Path('/dev'), pathlib.Path('/proc'), pathlib.Path('/sys'))  # what a driver asks, mounted in another system
SUITES = ('device', 'fault', 'command', 'documents')
QUICK = ('context', 'order', 'strided', 'memory', 'index_arrays', 'state', 'step_down', 'dropout')
SINGLE = ('context', 'order', 'strided', 'memory', 'call_times', 'drawing')  # for an interpreter

# Where a driver is; what its environment has to have; tests, and suites, in place of all; whether it needs libraries beside it.
DRIVERS = {
    'pocl': {'icd': ['/etc/OpenCL/vendors/pocl.icd']},
    'intel': {'icd': [], 'own_libraries': True},
    'rusticl': {'icd': ['/etc/OpenCL/vendors/rusticl.icd'], 'environment': {'RUSTICL_ENABLE': 'llvmpipe'}},
    'oclgrind': {'icd': ['/usr/lib/*/oclgrind/liboclgrind-rt-icd.so', '/usr/lib/oclgrind/liboclgrind-rt-icd.so'],
                 'tests': SINGLE, 'suites': ('oclgrind',)},
}


def find_icd(patterns):
    for pattern in patterns:
        for path in glob.glob(pattern):
            return path
    return None


def configure(build, icd):
    known = (build / 'build.ninja').exists()
    subprocess.run(['meson', 'setup', *(['--reconfigure'] if known else []), str(build), str(ROOT), f'-Dtest_icd={icd}'], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(['ninja', '-C', str(build)], check=True, stdout=subprocess.DEVNULL)


def libraries_beside(build, icd):
    """A folder of links to the libraries that lie beside the driver's, but for its loader, which knows neither OCL_ICD_VENDORS nor layers."""
    folder = build / 'libraries'
    folder.mkdir(exist_ok=True)
    for path in pathlib.Path(pathlib.Path(icd).read_text(encoding='utf-8').strip()).parent.glob('*.so*'):
        link = folder / path.name
        link.unlink(missing_ok=True)
        if not path.name.startswith('libOpenCL.'):
            link.symlink_to(path)
    return str(folder)


def enter(folder):
    """Makes the tree and the interpreter of the tests visible in the other system, at their own paths."""
    for path in (ROOT, pathlib.Path(sys.executable).resolve().parent, *SYSTEM):
        there = folder / path.relative_to('/')
        there.mkdir(parents=True, exist_ok=True)
        if path in (ROOT, *SYSTEM):
            if not os.path.ismount(there):
                subprocess.run(['mount', '--bind', str(path), str(there)], check=True)
    python = folder / pathlib.Path(sys.executable).resolve().relative_to('/')
    if not python.exists():
        python.symlink_to('/usr/bin/python3')
    for name in ('python3', 'python'):
        beside = python.parent / name
        if not beside.exists() and not beside.is_symlink():
            beside.symlink_to('/usr/bin/python3')


def leave(folder):
    for path in (ROOT, *SYSTEM):
        subprocess.run(['umount', '-l', str(folder / str(path).lstrip('/'))], check=False)


def run(build, arguments, environment, wrapper):
    command = ['meson', 'test', '-C', str(build), '--no-rebuild', *wrapper, *arguments]
    subprocess.run(command, env=environment, check=False)
    rows = []
    for line in (build / 'meson-logs' / 'testlog.json').read_text().splitlines():
        rows.append(json.loads(line))
    return rows


def last_line(row):
    lines = [line for text in (row.get('stdout'), row.get('stderr')) if text for line in text.splitlines() if line.strip()]
    said = [line for line in lines if 'skipped' in line.lower() or 'FAILED' in line or 'error' in line.lower()]
    return (said or lines or [''])[-1].strip()[:160]


def report(name, rows):
    counts = {'OK': 0, 'FAIL': 0, 'SKIP': 0, 'TIMEOUT': 0}
    for row in rows:
        result = {'EXPECTEDFAIL': 'OK', 'ERROR': 'FAIL', 'UNEXPECTEDPASS': 'FAIL'}.get(row['result'], row['result'])
        counts[result] = counts.get(result, 0) + 1
        if result != 'OK':
            print(f"{result.lower():8} {row['name']}: {last_line(row)}")
    print(f"{name}: {counts['OK']} passed, {counts['FAIL'] + counts['TIMEOUT']} failed, {counts['SKIP']} skipped")
    return counts['FAIL'] + counts['TIMEOUT'] > 0 or counts['OK'] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('driver', choices=DRIVERS)
    parser.add_argument('--icd')
    parser.add_argument('--root', type=pathlib.Path)
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build-drivers')
    parser.add_argument('--quick', action='store_true')
    arguments, names = parser.parse_known_args()
    driver = DRIVERS[arguments.driver]
    icd = arguments.icd or find_icd(driver['icd'])
    if not icd:
        print(f'skipped: {arguments.driver} is not here, or --icd has to say where')
        return SKIPPED
    configure(arguments.build, icd)
    environment = dict(os.environ, **driver.get('environment', {}))
    if driver.get('own_libraries'):
        environment['LD_LIBRARY_PATH'] = libraries_beside(arguments.build.resolve(), icd)
    wrapper = []
    if arguments.root:
        enter(arguments.root)
        wrapper = ['--wrapper', f'chroot {arguments.root}']
    try:
        rows = run(arguments.build, ['loops'], environment, wrapper)
        if rows and all(row['result'] == 'SKIP' for row in rows):
            print(f'{arguments.driver}: the loader finds no device by {icd}')
            return 1
        if report('loops', rows):
            print(f'{arguments.driver}: not to be used: it runs loops wrongly (tests/drivers/loops.c)')
            return 1
        chosen = names or (list(QUICK) if arguments.quick else list(driver.get('tests', ())))
        rows = run(arguments.build, chosen, environment, wrapper) if chosen else []
        suites = () if names or arguments.quick else driver.get('suites', () if chosen else SUITES)
        if suites:
            rows += run(arguments.build, [word for suite in suites for word in ('--suite', suite)], environment, wrapper)
    finally:
        if arguments.root:
            leave(arguments.root)
    return report(arguments.driver, rows)


if __name__ == '__main__':
    sys.exit(main())
