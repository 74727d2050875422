#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The manual pages against the command: a page for each subcommand, with every option of its table and no other; and
mandoc(1), where it is installed, finds nothing to complain of.

    test_manual.py CLATTN PAGE...
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
from option_tables import options, subcommands, text_of

CLATTN = ""
PAGES = {}  # by name, without the section; those of commands
OTHERS = {}  # likewise, of other sections


def read(name):
    with open(PAGES[name], encoding="utf-8") as file:
        return file.read()


class Manual(unittest.TestCase):
    def test_every_subcommand_has_a_page(self):
        names = subcommands(CLATTN)
        self.assertGreaterEqual(len(names), 6)
        self.assertEqual(sorted(PAGES), sorted(["clattn"] + ["clattn-" + name for name in names]))
        for name in names:
            self.assertIn(".It Xr clattn-%s 1\n" % name, read("clattn"))
            self.assertIn(".Xr clattn-%s 1" % name, read("clattn").split(".Sh SEE ALSO")[1])
        for name in OTHERS:
            self.assertIn(".Xr %s 7" % name, read("clattn").split(".Sh SEE ALSO")[1])

    def test_every_option_is_described(self):
        for name in subcommands(CLATTN):
            page = read("clattn-" + name)
            synopsis = page.split(".Sh SYNOPSIS\n")[1].split(".Sh DESCRIPTION")[0]
            items = "\n".join(re.findall(r"^\.It (.*)$", page, re.MULTILINE))
            expected = sorted(options(CLATTN, name))
            self.assertGreater(len(expected), 0)
            for place, text in (("synopsis", synopsis), ("list", items)):
                found = sorted(set(re.findall(r"Fl -([a-z-]+)", text)))
                self.assertEqual(found, expected, "%s of the page of %s" % (place, name))

    def test_help_is_what_the_option_says(self):
        for name in subcommands(CLATTN):
            self.assertEqual(text_of(CLATTN, "help", name), text_of(CLATTN, name, "--help"))

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_mandoc_has_no_complaint(self):
        result = subprocess.run(["mandoc", "-T", "lint", "-W", "style", *PAGES.values(), *OTHERS.values()], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=60)  # (as one they come amid each other's lines)
        about_the_machine = "referenced manual not found|outdated mandoc.db"  # what is installed there, not what is said here
        complaints = [line for line in (result.stdout + b"\n" + result.stderr).decode().splitlines()
                      if line and not re.search(about_the_machine, line)]
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    CLATTN = os.path.abspath(sys.argv[1])
    for path in sys.argv[2:]:
        name, section = os.path.basename(path).rsplit(".", 1)
        (PAGES if section == "1" else OTHERS)[name] = os.path.abspath(path)
    unittest.main(argv=sys.argv[:1], verbosity=2)
