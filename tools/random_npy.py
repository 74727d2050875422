#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes an fp32 .npy array of standard normal numbers, with nothing but Python itself.

usage: random_npy.py [--seed TEXT] FILE LENGTH...
"""
import argparse
import array
import math
import random
import struct
import sys


def header(shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    # The data begin at a multiple of 64 bytes: magic, version, two bytes of length, the text, spaces, a newline.
    text += ' ' * (-(10 + len(text) + 1) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode('latin-1')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seed', default='0')
    parser.add_argument('file')
    parser.add_argument('shape', type=int, nargs='+')
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    values = array.array('f', (source.gauss(0.0, 1.0) for _ in range(math.prod(arguments.shape))))
    if sys.byteorder == 'big':
        values.byteswap()
    with open(arguments.file, 'wb') as file:
        file.write(header(arguments.shape))
        values.tofile(file)


main()
