#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What the command says of itself, of devices and of wrong usage, its bars on terminals, and what tests/peers starts with."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
from command import CLATTN, CommandTest, DEVICE, DUMPS, FILE, LAYER, OK, USAGE, run_tests
from dumps import write_elsewhere
from terminal import on_terminal


class General(CommandTest):
    def test_help_and_version(self):
        text = self.run_it("--help").stdout
        for name in ("devices", "plan", "run", "verify", "bench", "tune", "compile", "report", "completion"):
            self.assertIn(name, text)
            own = self.run_it(name, "--help").stdout
            self.assertIn("Usage:", own)
            self.assertIn("Exit status", own)
            self.assertLessEqual(max(map(len, own.split("\n"))), 120, name)
            self.assertEqual(own, self.run_it("help", name).stdout)
        self.assertEqual(text, self.run_it("help", "help").stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^clattn \d+\.\d+\.\d+\n$")
        self.assertEqual(self.run_it("-V").stdout, self.run_it("--version").stdout)

    def test_usage(self):
        self.refused(USAGE, says=["subcommand", "Usage"])
        self.refused(USAGE, "frobnicate", says=["'frobnicate'", "--help"])
        self.refused(USAGE, "verfy", says=["did you mean verify"])
        self.refused(USAGE, "help", "nothing", says=["'nothing'"])
        self.refused(USAGE, "plan", "--d", "0", says=["--d '0'", "1 to 576"])
        self.refused(USAGE, "plan", "--d", "577", says=["--d '577'", "1 to 576"])
        self.refused(USAGE, "plan", "--dtpe", "fp16", says=["--dtpe", "did you mean --dtype"])
        self.refused(USAGE, "plan", "--device", "first", says=["'first'", "0:0"])
        self.refused(USAGE, "plan", "--device", "99:0", says=["99:0", "clattn devices"])
        self.refused(USAGE, "plan", "--device", "0:99", says=["0:99", "clattn devices"])
        said = self.refused(USAGE, "plan", "--skeleton", "none", says=["'none'", "forward_simt"]).stderr
        listed = said.split("one of ")[1].split()
        self.assertEqual(len(listed), len({name.strip(",") for name in listed}), said)
        self.refused(USAGE, "verify", "--skeleton", "none", says=["'none'", "forward_simt"])
        self.refused(USAGE, "verify", "--quick", "--full", says=["one of them"])
        self.refused(USAGE, "bench", "--heads", "3", "--kv-heads", "2", "--n", "64", says=["--kv-heads 2", "divide"])
        self.refused(USAGE, "bench", "--n-q", "64", says=["--n-kv"])
        self.refused(USAGE, "bench", "--batch", "2", says=["--n"])
        self.refused(USAGE, "bench", "--grid", "flash", "--n", "100", says=["grid"])

    def test_no_platform(self):
        nowhere = {"OCL_ICD_VENDORS": self.path("nowhere"), "OCL_ICD_FILENAMES": ""}
        self.refused(DEVICE, "devices", environment=nowhere, says=["no OpenCL platform", "pocl-opencl-icd"])
        self.inputs()
        self.refused(DEVICE, "run", *self.names(), environment=nowhere, says=["no OpenCL platform"])
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["k.npy", "q.npy", "v.npy"])

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_stdout(self):
        with open("/dev/full", "wb") as full:
            self.refused(FILE, "--help", stdout=full, says=["standard output"])


class Devices(CommandTest):
    def test_list(self):
        devices = json.loads(self.run_it("devices", "--json").stdout)
        self.assertGreater(len(devices), 0)
        text = self.run_it("devices").stdout
        for device in devices:
            self.assertIn(device["device"], text)
            self.assertIn(device["name"], text)
            self.assertIn(device["driver"], text)
            self.assertGreater(device["local_memory_bytes"], 0)
            self.assertIsNone(device["problem"])
            self.assertIn(device["skeleton"], text)


    def test_briefly(self):
        listed = [line.split(" ", 1) for line in self.run_it("devices", "--brief").stdout.splitlines()]
        self.assertEqual(listed, [[device["device"], device["name"]]
                                  for device in json.loads(self.run_it("devices", "--json").stdout)])
        self.refused(USAGE, "devices", "--brief", "--json", says=["one of them"])


class Compile(CommandTest):
    """Programs are compiled once, kept, and taken from where they are kept."""

    def compiled(self, *words, **options):
        rows = json.loads(self.run_it("compile", "--json", "--quiet", *words, **options).stdout)
        return [(row["pass"], row["dtype"], row["d"], row["causal"], row["compiled"]) for row in rows]

    def test_once(self):
        here = {"CLATTN_CACHE_DIR": self.path("cache")}
        words = ["--skeleton", "forward_simt", "--d", "8", "--dtype", "fp32,fp16"]
        self.assertEqual(self.compiled(*words, environment=here),
                         [("forward", "fp32", 8, "off", True), ("forward", "fp16", 8, "off", True)])
        with open(self.path("list"), "w", encoding="utf-8") as file:
            file.write("# of a service\n--dtype fp16 --d '8'\n\n--d 8 --causal off,top-left # and this\n")
        self.assertEqual(self.compiled("--skeleton", "forward_simt", "--problems", self.path("list"), environment=here),
                         [("forward", "fp16", 8, "off", False), ("forward", "fp32", 8, "off", False),
                          ("forward", "fp32", 8, "top-left", True)])

    def test_nothing_is_kept(self):
        self.refused(FILE, "compile", "--skeleton", "forward_simt", "--d", "8", environment={"CLATTN_CACHE_DIR": ""},
                     says=["does not keep it"])

    def test_bad_lists(self):
        def refused(text, *says, status=USAGE):
            with open(self.path("list"), "w", encoding="utf-8") as file:
                file.write(text)
            self.refused(status, "compile", "--problems", self.path("list"), says=says, environment={"CLATTN_CACHE_DIR": cache})
            self.assertFalse(os.path.exists(cache))
        cache = self.path("unused")
        refused("--d 8 --dtype fp64\n", "line 1", "'fp64'")
        refused("\n--d '8\n", "line 2", "quotation", status=FILE)
        refused("# nothing\n", "no line", status=FILE)
        refused("--d 577\n", "line 1", "1 to 576")
        refused("--problems other\n", "line 1", "not for a line")
        refused("--d 8 --skeleton forward_simt\n--causal\n", "line 2", "needs a value")  # before line 1 is compiled
        self.refused(FILE, "compile", "--problems", self.path("none"), says=["No such file"])


class Terminal(CommandTest):
    """Bars and colours are for terminals."""
    WORDS = ["verify", "--seed", "1", "--only", "0"]
    BAR = "\r\033[K"

    def stderr_of(self, *words, **environment):
        status, text = on_terminal([CLATTN, *words], "stderr", environment)
        self.assertEqual(status, OK)
        return text

    def test_bars(self):
        text = self.stderr_of(*self.WORDS)
        self.assertIn(self.BAR, text)
        self.assertIn("\033[32m", text)
        plain = self.stderr_of(*self.WORDS, NO_COLOR="1")
        self.assertIn(self.BAR, plain)
        self.assertNotIn("\033[32m", plain)
        self.assertNotIn("\033", self.stderr_of(*self.WORDS, TERM="dumb"))
        self.assertEqual(self.stderr_of(*self.WORDS, "--quiet"), "")
        self.assertNotIn("\033", self.run_it(*self.WORDS).stderr)

    def test_text_fits(self):
        """Lines are broken between words, and lose none; what is no terminal gets them as they are."""
        for words in (["help"], ["help", "verify"], ["plan", "--d", "16"]):
            whole = self.run_it(*words).stdout
            self.assertGreater(max(map(len, whole.splitlines())), 80)
            for columns in (48, 80):
                status, text = on_terminal([CLATTN, *words], "stdout", {"COLUMNS": str(columns)})
                self.assertEqual(status, OK)
                self.assertLessEqual(max(len(line) for line in text.splitlines() if " " in line.strip()), columns)
                self.assertEqual(text.split(), whole.split())

    def test_tables_fit(self):
        """No line with a place to break is wider than the terminal, but that command line which one is to copy."""
        h200 = write_elsewhere(os.path.join(DUMPS, "nvidia-h200.json"), self.path("dump.json"))
        cache = tempfile.TemporaryDirectory()  # `compile` fails where nothing is kept
        self.addCleanup(cache.cleanup)
        for words, widths in ((["devices"], (60, 80)), (["verify", "--only", "3"], (60, 80)), (["compile"], (60, 80)),
                              (["tune", "--clinfo", h200, "--d", "64"], (60, 80)),
                              (["bench", "--n", "16", "--repetitions", "1", "--no-standard"], (60, )),
                              (["verify", "--soak", "100", "--cases", "1", "--jobs", "1"], (60, ))):
            for columns in widths:
                environment = {"COLUMNS": str(columns), "CLATTN_CACHE_DIR": cache.name}
                status, text = on_terminal([CLATTN, *words], "stdout", environment)
                self.assertEqual(status, OK, (words, text))
                for line in text.splitlines():
                    if " " in line.strip() and not line.startswith("  reproduce: "):
                        self.assertLessEqual(len(line), columns, line)

    def test_slow_compilation(self):
        """A kernel that takes a second is named, with caches off. Builds are made to take two."""
        slow = {"CLATTN_CACHE_DIR": "", "OPENCL_LAYERS": LAYER, "CLATTN_FAULT_SLOW_BUILD": "2"}
        self.assertIn("clattn: compiling forward_", self.run_it("plan", "--d", "16", environment=slow).stderr)


class PeersTest(CommandTest):
    """What tests/peers/torch_sdpa.py does before it measures; the rest of it needs PyTorch, which the tests do without."""

    def run_script(self, *words):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers", "torch_sdpa.py")
        return subprocess.run([sys.executable, "-S", script, "--clattn", CLATTN, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)  # -S: without what else is installed

    def test_what_is_missing_is_named(self):
        result = self.run_script("--torch", "cpu")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("PyTorch is needed", result.stderr)

    def test_bad_values(self):
        for words, text in ((["--dtype", "fp32,fp8"], "'fp8'"), (["--backends", "fast"], "'fast'"), (["--n", "0"], "--n"),
                            (["--grid", "flash", "--heads", "2"], "--grid"), (["--rounds", "0"], "--rounds")):
            result = self.run_script(*words)
            self.assertEqual(result.returncode, USAGE, words)
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    run_tests()
