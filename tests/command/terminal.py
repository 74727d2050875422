# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command with its standard output or error on a terminal."""
import os
import pty
import select
import subprocess


def on_terminal(words, stream, environment, timeout=120):
    """Exit status and what the terminal got; `stream` is "stdout" or "stderr", the other goes nowhere."""
    ours, theirs = pty.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm", "NO_COLOR": "",
                                                                     **environment}, **streams)
    os.close(theirs)
    got = b""
    try:
        while select.select([ours], [], [], timeout)[0]:
            data = os.read(ours, 65536)
            if not data:
                break
            got += data
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    return process.wait(timeout), got.decode()
