#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Says of every kernel text for NVIDIA's devices whether its PTX is still what it was at a commit, without a device.

    compare.py BUILD COMMIT [--only REGEX] [--every N] [--jobs N] [--folder FOLDER]

BUILD is a build directory of this tree. What the commit needs is built below FOLDER (BUILD/ptx), where all PTX is kept by the
hash of its text, so that a text is compiled once. --only takes the texts whose names match, --every one in N of them.

One line a text, as a table in Markdown: what became of it, the instructions of both sides, and how many of today's the other
side has not. Then the sums:

    same text     the library hands the compiler the same characters
    same PTX      other characters, but the same instructions: names of labels, functions and variables do not count
    other places  the same instructions in the same order, on other registers or with parameters at other offsets
    other order   the same instructions in another order
    differs       other instructions, if only other offsets in a struct of parameters
    only ...      the planner takes other sizes, or texts.c has another list

Its tools are those of nvvm.py. The exit status is 1 where a text that both have is not the same, or cannot be compiled.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import pathlib
import re
import subprocess
import sys

import nvvm

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILTINS = HERE / "builtins.clh"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def build_commit(commit, folder):
    """kernel_texts as it was at the commit."""
    tree, build = folder / "tree", folder / "build"
    if not tree.exists():
        tree.mkdir(parents=True)
        archive = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
    if not (build / "build.ninja").exists():
        run("meson", "setup", "--buildtype=debugoptimized", build, tree)
    run("ninja", "-C", build, "tests/kernel_texts")
    return build / "tests/kernel_texts"


def texts_of(program, folder):
    """Each text by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.cl"):
        old.unlink()
    run(program, folder)
    return {path.stem: path for path in folder.glob("*.cl")}


def normal(ptx):
    """PTX without comments but those that the library turns into instructions, with names numbered as they come."""
    numbers = {}

    def numbered(match):
        word = match[0]
        return numbers.setdefault(word, f"N{len(numbers)}") if "_" in word or "$" in word else word
    ptx = re.sub(r"//(?!@).*", "", ptx)
    ptx = re.sub(r"(?<![\w.%$])[A-Za-z_$][\w$]*", numbered, ptx)
    return re.sub(r"[ \t]*\n\s*", "\n", ptx)


class Compiler:
    """Compiles each text once."""

    def __init__(self, folder):
        self.clang, self.library, self.folder = nvvm.find_clang(), nvvm.find_library(), folder
        self.folder.mkdir(parents=True, exist_ok=True)

    def ptx(self, path):
        text = path.read_text()
        kept = self.folder / (hashlib.sha256((text + BUILTINS.read_text()).encode()).hexdigest()[:32] + ".ptx")
        if not kept.exists():
            made = run(sys.executable, HERE / "nvvm.py", path, BUILTINS, f"{kept}.part", stderr=subprocess.PIPE)
            assert not made
            pathlib.Path(f"{kept}.part").rename(kept)
        return normal(kept.read_text())


def instructions(ptx):
    """Each instruction without registers, names and the places of parameters."""
    lines = (line.strip() for line in ptx.split("\n"))
    return [re.sub(r"%\w+|\bN\d+(\+\d+)?\b", "", line) for line in lines if line.endswith(";") and not line.startswith(".")]


def judge(compiler, before, now):
    """What became of a text, and the instructions before and now."""
    if not before or not now:
        return "only now" if now else "only before", "", "", ""
    if before.read_bytes() == now.read_bytes():
        return "same text", "", "", ""
    try:
        ptx = compiler.ptx(before), compiler.ptx(now)
    except subprocess.CalledProcessError as failure:
        return "fails", "", "", (failure.stderr or "").strip().split("\n")[-1][:200]
    was, is_now = (instructions(one) for one in ptx)
    new = sum((collections.Counter(is_now) - collections.Counter(was)).values())
    word = "same PTX" if ptx[0] == ptx[1] else "other places" if was == is_now else "differs" if new else "other order"
    return word, len(was), len(is_now), new


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("commit")
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path)
    return parser.parse_args()


def main():
    asked = arguments()
    folder = (asked.folder or asked.build / "ptx").resolve()
    compiler = Compiler(folder / "kept")
    if not compiler.clang or not compiler.library:
        print("nvvm.py says what is missing: a clang 13 or 14, or libnvvm", file=sys.stderr)
        return 2
    commit = run("git", "-C", ROOT, "rev-parse", "--short", asked.commit + "^{commit}").strip()
    run("ninja", "-C", asked.build, "tests/kernel_texts")
    before = texts_of(build_commit(commit, folder / commit), folder / commit / "texts")
    now = texts_of(asked.build / "tests/kernel_texts", folder / "texts")
    names = [name for name in sorted(set(before) | set(now)) if asked.only.search(name)][::asked.every]
    sums = collections.Counter()
    print(f"| text | beside {commit} | instructions then | now | of these new |\n|---|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for name, row in zip(names, pool.map(lambda name: judge(compiler, before.get(name), now.get(name)), names)):
            sums[row[0]] += 1
            print("|", " | ".join(map(str, (name, *row))), "|", flush=True)
    print("\n" + ", ".join(f"{count} {word}" for word, count in sums.most_common()))
    return 1 if any(sums[word] for word in ("differs", "other order", "other places", "fails")) else 0


if __name__ == "__main__":
    sys.exit(main())
