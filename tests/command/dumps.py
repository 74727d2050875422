# SPDX-License-Identifier: BSD-2-Clause
"""Dumps of clinfo --json, of devices that are surely not those of the machine that runs the test."""
import re


def write_elsewhere(dump, copy):
    """Writes dump once more, where the name of each device ends in "elsewhere": one that is here would be tuned."""
    with open(dump, encoding="utf-8") as file:
        text, count = re.subn(r'("CL_DEVICE_NAME" : "[^"]*)"', r'\1 elsewhere"', file.read())
    assert count, dump
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    return copy
