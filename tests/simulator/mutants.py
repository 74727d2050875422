#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether faults that are put into the kernels' text are seen on a simulated device.

    mutants.py LIBRARY EXECUTED CLATTN [DEVICE...]

Each mutant changes what one expression finds in a program; without one, the same calls are right. One that changes nothing of
the machine code, or that is found nowhere, fails the test, too. The program compiles for the platform in place of clang 19:
with MUTANT set it edits the text first.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RUN = pathlib.Path(__file__).with_name("run.py")
BARRIER = r"barrier\(CLK_LOCAL_MEM_FENCE\);"

# What is run (a call of `executed`, or a part of verify's cases), what is faulty, an expression, what takes the place of all that it finds, and the
# devices, if not all.
FORWARD = [
    ("no barrier before a tile is filled", r"(do \{\s*\\\s*)" + BARRIER + r"(\s*\\\s*\w*matrix_commit\()", r"\1\2", None),
    ("no barrier behind it", r"(matrix_commit_pairs\([^\n]*\n\s*)" + BARRIER, r"\1;", None),
    ("keys in another order than sums", r"#define AMD_LEFT\(lane\)  \(\(lane\) % 2[^\n]*", "#define AMD_LEFT(lane) ((lane) % 16)", ("gfx1100",)),
    ("rows' largest scores of one lane", r"#define (\w*)unit_row_max\(lane, x\)[^\n]*", r"#define \1unit_row_max(lane, x) (x)", None),
    ("sums of one lane", r"#define (\w*)unit_row_sum\(lane, x\)[^\n]*", r"#define \1unit_row_sum(lane, x) (x)", None),
    ("halves of V's pairs changed over", "0x05040100u", "0x07060302u", None),
    ("pairs of keys changed over", r"4 \* pair\)", "4 * (pair ^ 1))", None),
    ("rows of V a chunk off", r"\(8 \* chunk \* pitch", "(8 * (chunk ^ 1) * pitch", None),
    ("a key too many", r"\(\(row\) < present", "((row) <= present", None),
    ("outputs one row further", r"to \+ \(first \+ i\) \* at\.row", "to + (first + i + 1) * at.row", None),
    ("outputs are not scaled down", r"out\[r\]\[c\]\.x\[e\] \*= shrink\[r\]\[UNIT_SLOT\(e\)\]", "(void)0", None),
    ("weights are not exchanged", r"lane >= 16 \? other : own", "own", ("gfx1100",)),
    ("K and V overlap", r"\(to\) \+ K_TILE, KEYS_PITCH", "(to) + K_TILE - 16, KEYS_PITCH", None),
    ("weights to the base e", r"#define (\w*)unit_exp2\(x\)[^\n]*", r"#define \1unit_exp2(x) __builtin_amdgcn_exp2f(1.01f * (x))", None),
]
BACKWARD = [
    ("gradients without delta", r"fma\(gradient, kept_scale, -delta\)", "(gradient * kept_scale)", None),
    ("no barrier before a tile is used", BARRIER + r"( /\* this tile is there)", r"\1", None),
    ("rows' places one off", r"return lane % 16;", "return (lane + 1) % 16;", None),
]
SIMT = [
    ("no barrier in the walk over slices", r"(\n\s*)" + BARRIER + r"( \\)", r"\1;\2", None),
    ("weights to another base", r"(define CLATTN_LOG2E\s+)\S+", r"\g<1>1.5f", None),
]
DROPOUT = [
    ("a digit of the threshold twice", r"threshold >> \(10 - digit\)", "threshold >> (11 - digit)", None),
    ("another lane's words", r"\(stored->mine \+", "(stored->at +", None),
    ("words of other keys", r"(UNIT_PIECE \* MATRIX_WORD_PIECES\)) % 8", r"\1 % 2", None),
    ("bits of a neighbour", r"first \+ (17|22)", r"first + 1 + \1", None),
    ("pieces changed over", r"piece < 2 \?", "piece >= 2 ?", ("gfx1100", "gfx1201")),
]
ALIBI = [("penalties rise beyond the diagonal", r"beyond \? -steepness : steepness", "steepness", None)]
MUTANTS = [(kind, *row) for kind, rows in (("forward", FORWARD), ("backward", BACKWARD), ("simt", SIMT), ("dropout", DROPOUT), ("alibi", ALIBI))
           for row in rows]


def calls(executed, clattn):
    call = [executed, "PASS", "fp16", "64", "150", "210", "0", "8", "0", "0", "0"]
    forward = [word.replace("PASS", "forward") for word in call]
    return {"forward": forward,
            "dropout": [*forward[:6], "0x200@0.1", *forward[7:]],
            "alibi": [*forward[:6], "0x4", *forward[7:]],
            "backward": [word.replace("PASS", "backward") for word in call],
            "simt": [clattn, "verify", "--quick", "--quiet", "--device", "{device}", "--skeleton", "forward_simt", "--seed", "5",
                     "--part", "5/48"]}


def compile_edited():
    """In clang's place."""
    number, path = os.environ["MUTANT"], pathlib.Path(next(word for word in sys.argv if word.endswith(".cl")))
    if number:
        *_, expression, instead, _ = MUTANTS[int(number)]
        text = path.read_text(encoding="utf-8")
        if "clattn_probe" not in text:
            edited, count = re.subn(expression, instead.replace("\\n", "\n"), text)
            path.write_text(edited, encoding="utf-8")
            with open(os.environ["MUTANT_FOUND"], "a", encoding="utf-8") as file:
                file.write("found\n" * count)
    os.execvp("clang-19", ["clang-19", *sys.argv[1:]])


def passes(library, device, call, mutant, folder):
    """Whether what is run is right; and whether the mutant's expression was found."""
    found = pathlib.Path(folder) / "found"
    found.unlink(missing_ok=True)
    environment = dict(os.environ, SIMULATED_CLANG=__file__, SIMULATED_CACHE="", CLATTN_TUNING_FILE="", MUTANT=mutant,
                       MUTANT_FOUND=str(found))
    done = subprocess.run([sys.executable, str(RUN), library, device, *call], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 77:
        sys.exit(77)
    said = re.findall(r"^simulated: \w+ on [\w:+-]+, (.*)|^\s*(.*error.*)", done.stdout, re.M)
    if "error: " in done.stdout and "BUILD_FAILED" in done.stdout:
        return True, True, "it does not compile"
    return done.returncode == 0, found.exists(), next((text for texts in said for text in texts if text), "")[:150]


def main():
    library, executed, clattn, *devices = sys.argv[1:]
    failures, runs = 0, calls(executed, clattn)
    with tempfile.TemporaryDirectory() as folder:
        for device in devices or ["gfx1100", "gfx942"]:
            for name, call in runs.items():
                if not passes(library, device, call, "", folder)[0]:
                    print(f"FAILED {device} {name}: wrong without a fault")
                    failures += 1
            for number, (kind, name, _, _, only) in enumerate(MUTANTS):
                if only and device not in only:
                    continue
                right, found, said = passes(library, device, runs[kind], str(number), folder)
                failures += right or not found
                verdict = "not in the text" if not found else "NOT SEEN" if right else "seen"
                print(f"{device} {kind}, {name}: {verdict}: {said}", flush=True)
    print(f"{failures} failures")
    return 1 if failures else 0


sys.exit(compile_edited() if "MUTANT" in os.environ else main())
