# SPDX-License-Identifier: BSD-2-Clause
"""Formats of K and V in NumPy: what is stored, and what values that has (include/clattn/problem.h)."""
import numpy


def q8_0(x):
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = (abs(blocks).max(-1, keepdims=True) / 127).astype(numpy.float16)
    numbers = numpy.rint(blocks / scale.astype(numpy.float32)).clip(-127, 127).astype(numpy.int8)
    return numpy.concatenate([scale.view(numpy.uint8), numbers.view(numpy.uint8)], -1).reshape(*x.shape[:-1], -1)


def values_of_q8_0(stored):
    blocks = stored.reshape(*stored.shape[:-1], -1, 34)
    scale = numpy.ascontiguousarray(blocks[..., :2]).view(numpy.float16).astype(float)
    return (numpy.ascontiguousarray(blocks[..., 2:]).view(numpy.int8) * scale).reshape(*stored.shape[:-1], -1)


def q4_0(x):
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = (abs(blocks).max(-1, keepdims=True) / 7).astype(numpy.float16)
    numbers = (numpy.rint(blocks / scale.astype(numpy.float32)) + 8).clip(0, 15).astype(numpy.uint8)
    halves = numbers[..., :16] | numbers[..., 16:] << 4
    return numpy.concatenate([scale.view(numpy.uint8), halves], -1).reshape(*x.shape[:-1], -1)


def values_of_q4_0(stored):
    blocks = stored.reshape(*stored.shape[:-1], -1, 18)
    scale = numpy.ascontiguousarray(blocks[..., :2]).view(numpy.float16).astype(float)
    numbers = numpy.concatenate([blocks[..., 2:] & 15, blocks[..., 2:] >> 4], -1).astype(float) - 8
    return (numbers * scale).reshape(*stored.shape[:-1], -1)


def int4(numbers):
    """Of numbers from -8 to 7, neighbours in a byte."""
    half = numbers.astype(numpy.uint8) & 15
    return half[..., 0::2] | half[..., 1::2] << 4


def numbers_of_int4(stored):
    halves = numpy.stack([stored & 15, stored >> 4], -1).reshape(*stored.shape[:-1], -1).astype(int)
    return numpy.where(halves > 7, halves - 16, halves)


VALUES = {'q8_0': values_of_q8_0, 'q4_0': values_of_q4_0}
STORED = {'q8_0': q8_0, 'q4_0': q4_0}
