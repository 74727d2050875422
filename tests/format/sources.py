# SPDX-License-Identifier: BSD-2-Clause
"""Which files are ours to format."""
import os

# What is kept as it was, and what the build makes.
LEFT_OUT = ('kept', '__pycache__')


def files(root, folders, endings):
    found = []
    for folder in folders:
        for path, directories, names in os.walk(os.path.join(root, folder)):
            directories[:] = [name for name in directories if name not in LEFT_OUT]
            found += [os.path.join(path, name) for name in names if name.endswith(endings)]
    return sorted(found)


def c_files(root):
    return files(root, ('include', 'src', 'tools', 'tests'), ('.c', '.h'))


def kernel_files(root):
    return files(root, ('cl',), ('.cl', '.clh'))
