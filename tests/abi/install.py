#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Installs to a fresh prefix and uses what lies there as a stranger would: with pkg-config, with CMake, the command; and as a
project of CMake's that fetches the sources.

usage: install.py --build DIRECTORY --source DIRECTORY_OF_CONSUMER --prefix PREFIX --libdir LIBDIR COMPILER...
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile


def run(*command, **options):
    """Runs a command; shows it and all it says where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        print('failed:', ' '.join(command))
        print(done.stdout)
        sys.exit(1)
    return done.stdout


def environment_with(libdir):
    """The installed library first, then what the environment has, its OpenCL loader perhaps."""
    return dict(os.environ, LD_LIBRARY_PATH=os.pathsep.join(filter(None, [libdir, os.environ.get('LD_LIBRARY_PATH')])))


def with_pkg_config(arguments, root, libdir, work):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(libdir, 'pkgconfig'))
    flags = run('pkg-config', f'--define-variable=prefix={root}', '--cflags', '--libs', 'clattn',
                env=environment).split()
    program = os.path.join(work, 'consumer')
    run(*arguments.compiler, '-std=c11', '-Wall', '-Wextra', '-Wpedantic', '-Werror',
        os.path.join(arguments.source, 'consumer.c'), '-o', program, *flags)
    print('pkg-config:', run(program, env=environment_with(libdir)).strip())


def with_cmake(arguments, root, work):
    cmake = shutil.which('cmake')
    if not cmake:
        print('cmake: not installed, not checked')
        return
    source, build = os.path.join(work, 'source'), os.path.join(work, 'cmake')
    os.mkdir(source)
    for name in ('CMakeLists.txt', 'consumer.c'):
        shutil.copy(os.path.join(arguments.source, name), source)
    run(cmake, '-G', 'Ninja', '-S', source, '-B', build, f'-DCMAKE_PREFIX_PATH={root}', f'-DCMAKE_C_COMPILER={arguments.compiler[-1]}')
    run(cmake, '--build', build)
    print('cmake:', run(os.path.join(build, 'consumer')).strip())


def with_fetch_content(arguments, work):
    """As a project does that brings clattn along, by FetchContent; with this build, so that nothing is compiled twice."""
    cmake = shutil.which('cmake')
    if not cmake:
        return
    build = os.path.join(work, 'fetch')
    run(cmake, '-G', 'Ninja', '-S', os.path.join(arguments.source, 'fetch'), '-B', build,
        f'-DCLATTN_SOURCE={os.path.dirname(os.path.dirname(arguments.source))}', f'-DCLATTN_BUILD_DIR={arguments.build}',
        f'-DCMAKE_C_COMPILER={arguments.compiler[-1]}')
    run(cmake, '--build', build)
    print('FetchContent:', run(os.path.join(build, 'consumer')).strip())


def main():
    parser = argparse.ArgumentParser()
    for name in ('build', 'source', 'prefix', 'libdir'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('compiler', nargs='+')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        destination = os.path.join(work, 'root')
        run('meson', 'install', '--no-rebuild', '-C', arguments.build, '--destdir', destination)
        root = destination + arguments.prefix
        libdir = os.path.join(root, arguments.libdir)
        with_pkg_config(arguments, root, libdir, work)
        with_cmake(arguments, root, work)
        with_fetch_content(arguments, work)
        command = os.path.join(root, 'bin', 'clattn')
        if os.path.exists(command):
            environment = environment_with(libdir)
            print('command:', run(command, '--version', env=environment).strip())
            run(command, 'devices', env=environment)
            for name in ('man/man1/clattn.1', 'man/man1/clattn-run.1', 'bash-completion/completions/clattn',
                         'zsh/site-functions/_clattn'):
                if os.path.getsize(os.path.join(root, 'share', name)) < 100:
                    sys.exit(f'{name}: hardly anything was installed')
    return 0


sys.exit(main())
