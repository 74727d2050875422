#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the examples of clattn-features(7), as they are printed, one after the other in an empty folder.

    test_examples.py CLATTN SOURCE PAGE

Each must succeed without a word of complaint, and every array that it writes must be of finite numbers. The first example
defines what the others call.
"""
import array
import os
import re
import subprocess
import sys
import tempfile
import unittest

CLATTN, SOURCE, PAGE = "", "", ""


def examples():
    """(section, text) of each literal display of the page."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    found, section = [], ""
    for match in re.finditer(r"^\.Sh (.*)$|^\.Bd -literal.*\n((?:.*\n)*?)\.Ed$", text, re.MULTILINE):
        if match.group(1):
            section = match.group(1)
        else:
            found.append((section, match.group(2).replace("\\e", "\\").replace("\\&", "")))
    return found


def numbers_of(path):
    """The elements of a .npy file of fp32."""
    with open(path, "rb") as file:
        data = file.read()
    begin = 10 + int.from_bytes(data[8:10], "little")
    values = array.array("f")
    values.frombytes(data[begin:])
    return values


class Examples(unittest.TestCase):
    def test_page(self):
        (_, preamble), *others = examples()
        self.assertGreater(len(others), 14)
        with tempfile.TemporaryDirectory() as folder:
            self.run_one(folder, "beginning", preamble)
            definitions = "".join(line + "\n" for line in preamble.splitlines() if "() {" in line)
            for section, text in others:
                with self.subTest(section=section):
                    before = {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in os.listdir(folder)}
                    self.run_one(folder, section, definitions + text)
                    self.check_outputs(folder, text, before)

    def run_one(self, folder, section, text):
        environment = {**os.environ, "SOURCE": SOURCE, "PATH": os.path.dirname(CLATTN) + os.pathsep + os.environ["PATH"]}
        result = subprocess.run(["sh", "-euc", text], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        self.assertEqual(result.returncode, 0, "%s:\n%s\n%s" % (section, text, result.stdout))
        self.assertNotIn("error", result.stdout)

    def check_outputs(self, folder, text, before):
        written = [name for name in os.listdir(folder) if os.stat(os.path.join(folder, name)).st_mtime_ns != before.get(name)]
        promised = set(re.findall(r"--(?:out|d[qkv]|dbias|dsink) (\S+\.npy)", text))
        promised |= {"o.npy"} if "attend" in text else set()
        self.assertGreater(len(promised), 0, text)
        for name in promised:
            self.assertIn(name, written)
            values = numbers_of(os.path.join(folder, name))
            self.assertGreater(len(values), 0)
            self.assertTrue(all(abs(value) < 1e6 for value in values), name)  # which a NaN is not
            self.assertTrue(any(values), name)


if __name__ == "__main__":
    CLATTN, SOURCE, PAGE = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1], verbosity=2)
