#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The documents against the tree: links lead somewhere, examples and figures are those of the files that they come from, and
commands are ones that the command has.

    test_documents.py SOURCE CLATTN
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path[0:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), name) for name in ("", os.path.join("..", "command"))]
import measured_tables
import overview_picture
from option_tables import options, subcommands

SOURCE, CLATTN = "", ""
MEASURED = os.path.join("tests", "data", "measured")


def path_of(*names):
    return os.path.join(SOURCE, *names)


def read(*names):
    with open(path_of(*names), encoding="utf-8") as file:
        return file.read()


def documents():
    """Every Markdown file of the tree, relative to it."""
    found = []
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = [name for name in folders if not name.startswith("build") and name != ".git"]
        found += [os.path.relpath(os.path.join(folder, name), SOURCE) for name in files if name.endswith(".md")]
    return sorted(found)


def anchors(text):
    """What GitHub calls the headings of a document."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", without_code, re.MULTILINE)}


def code_blocks(text, language):
    return re.findall(r"^```%s\n(.*?)^```" % language, text, re.MULTILINE | re.DOTALL)


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        names = documents()
        self.assertIn("README.md", names)
        for name in names:
            text = read(name)
            links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
            for link in links:
                if re.match(r"[a-z]+:", link):
                    continue
                file, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(name), file)) if file else name
                self.assertTrue(os.path.exists(path_of(target)), "%s: %s is not there" % (name, link))
                if anchor:
                    self.assertIn(anchor, anchors(read(target)), "%s: %s has no such heading" % (name, link))

    def test_readmes_are_short(self):
        for name, most in (("README.md", 240), ("src/README.md", 240), ("cl/README.md", 240), ("cl/score/README.md", 240), ("tests/README.md", 480)):
            lines = read(name).splitlines()
            self.assertLessEqual(len(lines), most, name)
            self.assertEqual([number for number, line in enumerate(lines, 1) if len(line) > 220], [], name)

    def test_code_in_prose_ends_on_its_line(self):
        """A command that a line's end breaks cannot be found or copied."""
        for name in documents():
            text = re.sub(r"^```.*?^```", lambda code: "\n" * code.group().count("\n"), read(name), flags=re.MULTILINE | re.DOTALL)
            broken = [number for number, line in enumerate(text.splitlines(), 1) if not line.startswith("    ") and line.count("`") % 2]
            self.assertEqual(broken, [], name)

    def test_examples_in_c_are_programs_of_the_tests(self):
        host, device = code_blocks(read("README.md"), "c")
        consumer = read("tests", "abi", "consumer.c")
        self.assertEqual(host, consumer[consumer.index("#include"):])
        self.assertIn(device, read("tests", "documents", "enqueue.c"))

    def test_tables_are_of_measured_rows(self):
        for folder, document in (("", "README.md"), (MEASURED, os.path.join(MEASURED, "README.md"))):
            text = read(document)
            self.assertIn("<!-- table ", text)
            self.assertEqual(measured_tables.rewritten(path_of(folder), text).splitlines(), text.splitlines(),
                             "mend it: tests/documents/measured_tables.py %s %s" % (folder or ".", document))

    def test_a_wrong_figure_is_seen(self):
        text = read(MEASURED, "README.md")
        wrong = re.sub(r"\| (\d+) \(1\.84;", lambda match: "| %d (1.84;" % (int(match.group(1)) + 1), text, count=1)
        self.assertNotEqual(wrong, text)
        self.assertEqual(measured_tables.rewritten(path_of(MEASURED), wrong), text)

    def test_picture_is_of_measured_rows(self):
        self.assertEqual(overview_picture.picture(path_of(MEASURED)), read(MEASURED, "overview.svg"),
                         "mend it: tests/documents/overview_picture.py %s %s/overview.svg" % (MEASURED, MEASURED))

    def test_headers_in_html(self):
        """Every exported function has its place, and no link leads nowhere."""
        headers = os.path.join("include", "clattn")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, path_of("tools", "headers_html.py"), "--output", folder] +
                           [path_of(headers, name) for name in sorted(os.listdir(path_of(headers)))], check=True,
                           stdout=subprocess.DEVNULL, timeout=60)
            pages = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    pages[name] = file.read()
        places = {name: re.findall(r'id="(\w+)"', text) for name, text in pages.items()}
        for name, text in pages.items():
            self.assertEqual(len(places[name]), len(set(places[name])), name)
            for file, place in re.findall(r'href="([^"#]*)#?([^"]*)"', text):
                self.assertIn(file or name, pages, name)
                if place:
                    self.assertIn(place, places[file or name], name)
        functions = re.findall(r"\bclattn_\w+", read("tests", "abi", "symbols.txt"))
        self.assertGreater(len(functions), 20)
        for function in functions:
            self.assertRegex(pages["index.html"], 'href="[a-z_]+.html#%s"' % function)

    def test_files_that_are_named_are_there(self):
        """`src/plan/variant.c` and the like, in backquotes."""
        for name in ("README.md", os.path.join("src", "README.md"), os.path.join("cl", "README.md"),
                     os.path.join("tests", "README.md"), os.path.join(".github", "CONTRIBUTING.md"), os.path.join(".github", "SECURITY.md")):
            for named in re.findall(r"`((?:src|cl|tests|tools|include)/[\w./-]+)`", read(name)):
                if "NAME" not in named:
                    self.assertTrue(os.path.exists(path_of(named)), "%s: %s is not there" % (name, named))

    def test_commands_are_ones_that_there_are(self):
        known = {name: options(CLATTN, name) for name in subcommands(CLATTN)}
        seen = set()
        for name in documents():
            for line in re.findall(r"^(?:    |\$ )clattn (.*)$", read(name), re.MULTILINE):
                words = line.split("  ")[0].split(" # ")[0].split()
                if words[0] in ("help", "--version") or words[0] not in known:
                    self.assertIn(words[0], ("help", "--version"), "%s: clattn %s" % (name, line))
                    continue
                seen.add(words[0])
                for option in re.findall(r"--([a-z][a-z-]*)", line.split("   ")[0]):
                    self.assertIn(option, known[words[0]], "%s: clattn %s" % (name, line))
        self.assertEqual(set(known) - {"completion"} - seen, set())


if __name__ == "__main__":
    SOURCE, CLATTN = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1], verbosity=2)
