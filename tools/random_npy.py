#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes a .npy array with nothing but Python itself: of standard normal numbers (fp32), of true and false (--share), of
numbers from -128 to 127 (--int8), or of those that are named (--values; int32, or fp32 where one has a point).

usage: random_npy.py [--seed TEXT] FILE LENGTH...
       random_npy.py [--seed TEXT] --share P FILE LENGTH...
       random_npy.py [--seed TEXT] --int8 FILE LENGTH...
       random_npy.py --values N,... FILE [LENGTH...]
"""
import argparse
import array
import math
import random
import struct
import sys


def header(kind, shape):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    # The data begin at a multiple of 64 bytes: magic, version, two bytes of length, the text, spaces, a newline.
    text += ' ' * (-(10 + len(text) + 1) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode('latin-1')


def contents(arguments):
    """The kind of number, the shape, and the numbers."""
    source = random.Random(arguments.seed)
    if arguments.values:
        texts = arguments.values.split(',')
        if any('.' in text for text in texts):
            return '<f4', arguments.shape or [len(texts)], array.array('f', map(float, texts))
        return '<i4', arguments.shape or [len(texts)], array.array('i', map(int, texts))
    count = math.prod(arguments.shape)
    if arguments.share is not None:
        return '|b1', arguments.shape, array.array('B', (source.random() < arguments.share for _ in range(count)))
    if arguments.int8:
        return '|i1', arguments.shape, array.array('b', (source.randrange(-128, 128) for _ in range(count)))
    return '<f4', arguments.shape, array.array('f', (source.gauss(0.0, 1.0) for _ in range(count)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', default='0')
    parser.add_argument('--share', type=float, metavar='P', help='true with probability P, else false')
    parser.add_argument('--int8', action='store_true', help='numbers from -128 to 127')
    parser.add_argument('--values', metavar='N,...', help='these numbers, in one dimension or of the shape')
    parser.add_argument('file')
    parser.add_argument('shape', type=int, nargs='*')
    arguments = parser.parse_args()
    if not arguments.values and not arguments.shape:
        parser.error('--values or the lengths of the array are needed')
    kind, shape, values = contents(arguments)
    if sys.byteorder == 'big':
        values.byteswap()
    with open(arguments.file, 'wb') as file:
        file.write(header(kind, shape))
        values.tofile(file)


if __name__ == '__main__':
    main()
