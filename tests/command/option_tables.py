# SPDX-License-Identifier: BSD-2-Clause
"""What the built command says of itself: its subcommands and the options of each, from its --help."""
import re
import subprocess


def text_of(clattn, *words):
    return subprocess.run([clattn, *words], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()


def subcommands(clattn):
    listed = text_of(clattn, "--help").split("Subcommands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def options(clattn, subcommand):
    """Every option of the table, without its dashes."""
    listed = text_of(clattn, subcommand, "--help").split("\nOptions:\n")[1].split("\n\n")[0]
    names = re.findall(r"^  --([a-z-]+)", listed, re.MULTILINE)
    assert names[-1] == "help"  # all have it
    return names[:-1]
