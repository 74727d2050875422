#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Corpora as one file each: every input behind its length, in four little-endian bytes.

    pack.py unpack FILE.corpus DIRECTORY     one file for each input, as libFuzzer wants them
    pack.py pack DIRECTORY FILE.corpus [BYTES]
                                             the other way, the smallest inputs first, in BYTES at most
"""
import hashlib
import os
import struct
import sys


def unpack(path, directory):
    os.makedirs(directory, exist_ok=True)
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        item = data[at + 4 : at + 4 + length]
        at += 4 + length
        with open(os.path.join(directory, hashlib.sha1(item).hexdigest()), "wb") as file:
            file.write(item)


def pack(directory, path, most):
    items = set()
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            items.add(file.read())
    taken = b""
    for item in sorted(items, key=lambda item: (len(item), item)):
        if len(taken) + 4 + len(item) <= most:
            taken += struct.pack("<I", len(item)) + item
    with open(path, "wb") as file:
        file.write(taken)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3])
    elif len(sys.argv) in (4, 5) and sys.argv[1] == "pack":
        pack(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) == 5 else 1 << 62)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
