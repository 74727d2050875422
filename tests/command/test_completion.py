#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The completion scripts: bash's is asked what it offers; zsh's, where zsh is installed, what it hands to _arguments.

    test_completion.py CLATTN
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
from option_tables import options, subcommands, text_of

CLATTN = ""


class Completion(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        open(os.path.join(self.folder.name, "some.npy"), "w").close()

    def shell(self, name, text, *words):
        result = subprocess.run([name, *words], input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                cwd=self.folder.name, timeout=60)
        self.assertEqual((result.returncode, result.stderr.decode()), (0, ""))
        return result.stdout.decode()

    def offers(self, *words):
        """What bash offers for the last of the words."""
        text = text_of(CLATTN, "completion") + "clattn() { '%s' \"$@\"; }\n" % CLATTN + "COMP_WORDS=(clattn %s)\nCOMP_CWORD=%d\n_clattn\n" % (
            " ".join("'%s'" % word for word in words), len(words))
        return self.shell("bash", text + "printf '%s\\n' \"${COMPREPLY[@]}\"\n", "--norc").split()

    def test_bash_subcommands(self):
        self.assertEqual(self.offers(""), subcommands(CLATTN) + ["help", "--help", "--version", "-V"])
        self.assertEqual(self.offers("ver"), ["verify"])
        self.assertEqual(self.offers("help", "be"), ["bench"])

    def test_bash_options(self):
        for name in subcommands(CLATTN):
            self.assertEqual(self.offers(name, "--"), ["--" + x for x in options(CLATTN, name)] + ["--help"])
            self.assertEqual(self.offers(name, ""), self.offers(name, "--"))
        self.assertEqual(self.offers("run", "--json", "--cu-seqlens-"), ["--cu-seqlens-q", "--cu-seqlens-kv"])

    def test_bash_values(self):
        self.assertEqual(self.offers("run", "--dtype", ""), ["fp32", "fp16", "bf16"])
        self.assertEqual(self.offers("run", "--dtype", "=", "b"), ["bf16"])
        self.assertEqual(self.offers("run", "--causal", "="), ["off", "bottom-right", "top-left"])
        self.assertEqual(self.offers("run", "--causal", "--js"), ["--json"])
        self.assertEqual(self.offers("bench", "--dtype", "fp32,b"), ["fp32,bf16"])
        self.assertEqual(self.offers("run", "--q", ""), ["some.npy"])
        self.assertEqual(self.offers("run", "--scale", ""), [])

    def test_bash_devices(self):
        devices = [line.split()[0] for line in text_of(CLATTN, "devices", "--brief").splitlines()]
        self.assertRegex(devices[0], "^[0-9]+:[0-9]+$")
        platform, number = devices[0].split(":")
        self.assertEqual(self.offers("run", "--device", ""), devices)
        self.assertEqual(self.offers("run", "--device", "=", platform),
                         [device for device in devices if device.startswith(platform)])
        self.assertIn(number, self.offers("run", "--device", platform, ":"))  # bash parts words at a colon
        self.assertEqual(self.offers("run", "--device", platform, ":", number), [number])

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        script = text_of(CLATTN, "completion", "--shell", "zsh")
        stubs = "compdef() { :; }\n_arguments() { print -rl -- \"$@\"; }\n_describe() { print -rl -- \"${(@P)4}\"; }\n"
        self.shell("zsh", script, "-f", "-n")

        def handed(*words):
            place = "words=(clattn %s '')\nCURRENT=%d\n_clattn\n" % (" ".join(words), len(words) + 2)
            return self.shell("zsh", stubs + script + place, "-f").splitlines()
        self.assertEqual([line.split(":")[0] for line in handed()], subcommands(CLATTN) + ["help"])
        for name in subcommands(CLATTN):
            specs = handed(name)
            self.assertEqual([re.match(r"--([a-z-]+?)(=-?)?\[", spec).group(1) for spec in specs],
                             options(CLATTN, name) + ["help"])
            for spec in specs:  # a help, and for a value its name and what to offer
                plain = re.sub(r"\\.", "", spec)
                self.assertRegex(plain, r"^--[a-z-]+(\[[^][]*\]|=\[[^][]*\]:[^:]+:[^:]+|=-\[[^][]*\]::[^:]+:[^:]+)$")
        self.assertIn("(fp32 fp16 bf16)", next(spec for spec in handed("run") if spec.startswith("--dtype")))


if __name__ == "__main__":
    CLATTN = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
