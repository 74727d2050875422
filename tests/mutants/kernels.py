#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Whether tests that take samples see faults that are put into the kernels for GPUs, as a CPU emulates them.

    kernels.py LAYER TESTS [--only WORD...] [--turns N]

LAYER is the edit layer, TESTS the folder of the test programs. Each mutant is an edit of the kernels' text (edit_layer.c), and
the program that has to see it: run for the mutant's skeleton alone, it is right without the edit in each of the turns 0 to
N - 1 (2), and wrong with it in one at least; which ones is printed. A mutant whose text is found in no program fails, too, and
one whose kernels do not compile. Mutants of the same program share its runs without an edit.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MATRIX, GRADIENTS, FUSED = "forward_matrix_emulated", "backward_matrix_emulated", "backward_fused_emulated"

# The skeleton; the program and its arguments; what is wrong; the text, and what takes its place.
MUTANTS = [
    # values beside float64
    (MATRIX, "o_type", "outputs are not scaled when a bound moves",
     "FOR_OUTPUTS out[r][c].x[e] *= shrink[r][UNIT_SLOT(e)];", ";"),
    (MATRIX, "o_type", "sums of weights are not scaled then", "rows->sum[r][i] *= shrink[r][i];", ";"),
    (MATRIX, "o_type", "weights to another base",
     "unit_exp2(fma(s, form->unit, -offset))", "unit_exp2(fma(1.02f * s, form->unit, -offset))"),
    (MATRIX, "packing " + MATRIX, "packed rows one off",
     "return (r - line * pack.number) * head + line * row;",
     "return (r - line * pack.number + 1) % pack.number * head + line * row;"),
    (MATRIX, "splits " + MATRIX, "the largest score of a row is off",
     "to.m[to.m_at + MATRIX_AT(to, m, at)] = top;", "to.m[to.m_at + MATRIX_AT(to, m, at)] = top + 0.1f;"),
    (MATRIX, "splits " + MATRIX, "outputs of few rows are not scaled when a bound moves",
     "&drawing, p, view, rows, shrink))", "&drawing, p, view, rows, shrink) && false)"),
    # values that are hidden, and not finite
    (MATRIX, "edges_values", "a hidden pair weighs",
     "if (j >= view->n_kv || clattn_hidden(i, j, view))", "if (j >= view->n_kv)"),
    # what dropout takes, beside the host's mask
    (MATRIX, "dropout", "rounds of the drawing have another key", "round * 0x9E3779B9u", "round * 0x9E3779B8u"),
    (GRADIENTS, "dropout", "rounds of the drawing have another key", "round * 0x9E3779B9u", "round * 0x9E3779B8u"),
    # the same bits
    (MATRIX, "bias_type", "a bias of fp32 is 2 % off", "clattn_load_bias(from + x * view->bias_column)",
     "clattn_load_bias(from + x * view->bias_column) * (CLATTN_BIAS_TYPE == CLATTN_FP32 ? 1.02f : 1.0f)"),
    # gradients beside float64
    (GRADIENTS, "o_type", "gradients without delta", "fma(gradient, kept_scale, -delta)", "(gradient * kept_scale)"),
    (GRADIENTS, "o_type", "weights 2 % off", "scale * CLATTN_LOG2E, -lse));", "scale * CLATTN_LOG2E, -lse + 0.03f));"),
    (FUSED, "o_type", "delta 10 % off", "x[2 * n] - delta", "x[2 * n] - 0.9f * delta"),
    (FUSED, "o_type", "dK is not scaled", "fused_leave(&all, memory, p.scale,", "fused_leave(&all, memory, 1.0f,"),
]


def run(arguments, skeleton, program, turn, edit, folder):
    """Whether the program is right, in how many places the edit was made, and what it said."""
    name, *words = program.split()
    found = pathlib.Path(folder) / "found"
    found.unlink(missing_ok=True)
    environment = dict(os.environ, OPENCL_LAYERS=arguments.layer, CLATTN_MUTANT_FROM=edit[0], CLATTN_MUTANT_TO=edit[1],
                       CLATTN_MUTANT_FOUND=str(found), CLATTN_TEST_SKELETON=skeleton, CLATTN_TEST_TURN=str(turn))
    done = subprocess.run([os.path.join(arguments.tests, "test_" + name), *words], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode == 77:
        print("skipped: " + done.stdout.splitlines()[-1])
        sys.exit(77)
    if done.returncode < 0 or "BUILD_FAILED" in done.stdout or "does not build" in done.stdout:
        return None, 0, done.stdout[-600:]
    return done.returncode == 0, found.stat().st_size if found.exists() else 0, done.stdout


def verdict_of(right, places):
    if right is None:
        return "ENDED OTHERWISE"
    if not places:
        return "NOT IN THE TEXT"
    return "NOT SEEN" if right else "seen"


def first_complaint(text):
    lines = [line for line in text.splitlines() if re.search(r"wrong|beyond|differs|other bits|off by|!=|error", line)]
    return lines[0][:110] if lines else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layer")
    parser.add_argument("tests")
    parser.add_argument("--only", nargs="*", default=[], help="mutants whose skeleton, program or fault has one of these words")
    parser.add_argument("--turns", type=int, default=2)
    arguments = parser.parse_args()
    chosen = [row for row in MUTANTS if not arguments.only or any(word in " ".join(row[:3]) for word in arguments.only)]
    failures, right_without = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for skeleton, program, fault, *edit in chosen:
            verdicts, complaint = [], ""
            for turn in range(arguments.turns):
                key = (skeleton, program, turn)
                if key not in right_without:
                    right_without[key], _, said = run(arguments, *key, ("", ""), folder)
                    if not right_without[key]:
                        print("%s, %s, turn %d: WRONG WITHOUT AN EDIT: %s" % (*key, first_complaint(said)))
                        failures += 1
                right, places, said = run(arguments, *key, edit, folder)
                verdicts.append(verdict_of(right, places))
                complaint = complaint or (first_complaint(said) if verdicts[-1] == "seen" else said if right is None else "")
            failures += "seen" not in verdicts
            print("%s, %s: %s: by turn: %s; %s" % (skeleton, program, fault, ", ".join(verdicts), complaint), flush=True)
    print("%d mutants, %d failures" % (len(chosen), failures))
    return 1 if failures or not chosen else 0


sys.exit(main())
