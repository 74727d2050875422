#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the tables of a document from the measured rows, so that a figure stands in one place.

    measured_tables.py FOLDER DOCUMENT            writes them
    measured_tables.py --check FOLDER DOCUMENT    exit status 1 where one differs, and says which

FOLDER has the JSON files. In the document a table stands between two comments, of which the first says what it shows:

    <!-- table KIND FILE.json NAME=VALUE ... -->
    <!-- /table -->

KIND is a function below. NAME=VALUE picks cells (pass=backward, commit=d69162f); commit=- those that name none of their own.
A table has the cells of one file; below it stand device, driver, commit and, unless command=no, command, as the file has them.
"""
import argparse
import json
import math
import os
import re
import sys

PEERS = {"flash2": "FlashAttention-2", "flash": "FlashAttention-2", "flash4": "FlashAttention-4", "cudnn": "cuDNN",
         "efficient": "memory-efficient"}
VERSIONS = {"torch": "PyTorch", "cudnn": "cuDNN", "flash-attn-4": "FlashAttention-4"}
MASKS = {False: "full", True: "causal"}


def picked(cells, wishes):
    def value(cell, name):
        return "-" if cell.get(name) is None else str(cell[name]).lower() if isinstance(cell[name], bool) else str(cell[name])
    return [cell for cell in cells if all(any((value(cell, name) + " ").startswith(one + " ") for one in wish.split(","))
                                          for name, wish in wishes.items())]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def length_of(cell):
    return cell.get("n", cell.get("n_kv"))


def naming(data, cells):
    """How peers are called, and the unit of speeds with the factor that it takes."""
    names = {**PEERS, "flash": "PyTorch" if "AVX" in data.get("torch_device", "") else PEERS["flash"]}
    return (names, "GFLOP/s", 1e3) if max(cell["tflops"]["clattn"] for cell in cells) < 2 else (names, "TFLOP/s", 1.0)


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def geometric_means(cells, peers, names):
    means = []
    for peer in peers:
        ratios = [cell["ratios"][peer] for cell in cells if cell["ratios"].get(peer)]
        if ratios:
            means.append("%s %.2f (%.2f to %.2f)" % (names[peer], geometric_mean(ratios), min(ratios), max(ratios)))
    return means


def grid(data, cells):
    """TFLOP/s by head dimension, mask and length; in brackets the ratios to the peers."""
    peers = [peer for peer in PEERS if any(peer in cell["ratios"] for cell in cells)]
    names, unit, times = naming(data, cells)
    lengths = sorted({length_of(cell) for cell in cells})
    several = len({cell["dtype"] for cell in cells}) > 1 and len({(length_of(c), c["dtype"]) for c in cells}) > len(lengths)
    rows = []
    for key in sorted({(cell["dtype"] if several else "", cell["d"], cell["causal"]) for cell in cells}):
        row = ["%sd %d, %s" % (key[0] + ", " if key[0] else "", key[1], MASKS[key[2]])]
        for n in lengths:
            found = [cell for cell in cells if (cell["dtype"] if several else "", cell["d"], cell["causal"]) == key
                     and length_of(cell) == n]
            row.append("%.0f (%s)" % (times * found[0]["tflops"]["clattn"],
                                      "; ".join("%.2f" % found[0]["ratios"][peer] for peer in peers)) if found else "")
        rows.append(row)
    head = "%s (x %s)" % (unit, "; x ".join(names[peer] for peer in peers))
    means = "; ".join(geometric_means(cells, peers, names))
    return table([head] + ["n %d" % n for n in lengths], rows) + \
        ["", "Geometric means of the ratios, and their range, %d cells: %s." % (len(cells), means)]


def summary(data, cells):
    """One line a pass, type and head dimension: the speed at the longest length, and geometric means of the ratios."""
    peers = [peer for peer in PEERS if any(peer in cell["ratios"] for cell in cells)]
    names, unit, times = naming(data, cells)
    rows = []
    for key in sorted({(cell["pass"] == "backward", cell["d"]) for cell in cells}):
        found = [cell for cell in cells if (cell["pass"] == "backward", cell["d"]) == key]
        longest = max(map(length_of, found))
        speeds = [times * cell["tflops"]["clattn"] for mask in (False, True) for cell in found
                  if length_of(cell) == longest and cell["causal"] == mask]
        row = ["backward" if key[0] else "forward", str(key[1]), "%.0f, %.0f" % (speeds[0], speeds[1])]
        for peer in peers:
            ratios = [cell["ratios"][peer] for cell in found if cell["ratios"].get(peer)]
            row.append("%.2f (%.2f to %.2f)" % (geometric_mean(ratios), min(ratios), max(ratios)))
        rows.append(row)
    head = ["", "d", "%s at n %d: full, causal" % (unit, longest)] + ["x " + names[peer] for peer in peers]
    return table(head, rows)


def shapes(data, cells):
    """Milliseconds of single shapes, one a line, and the ratios to the peers."""
    peers = [peer for peer in ("cudnn", "flash2", "flash4", "efficient") if any(peer in cell["ratios"] for cell in cells)]
    rows = []
    for cell in cells:
        sizes = "%d x %d%s, %d by %d, d %d%s" % (cell["batch"], cell["heads"],
                                                 "" if cell["heads"] == cell["kv_heads"] else " of %d" % cell["kv_heads"],
                                                 cell["n_q"], cell["n_kv"], cell["d"],
                                                 "" if cell["d"] == cell["d_v"] else ", d_v %d" % cell["d_v"])
        rows.append([cell["name"], sizes, cell["dtype"], cell["pass"] + (", any order" if cell["unordered"] else ""),
                     "%.4f" % cell["median_ms"]["clattn"], "`%s`" % cell["path"]] +
                    ["%.2f" % cell["ratios"][peer] if peer in cell["ratios"] else "" for peer in peers])
    return table(["", "batch x heads (of K and V), n_q by n_kv", "type", "pass", "ms", "kernel"] +
                 ["x " + PEERS[peer] for peer in peers], rows)


def feature_name(cell):
    if "features" in cell:
        return ", ".join(cell["features"])
    words = (cell.get("args") or "").replace(" FILE", "").replace(" --score-mod-grad", "")
    found = re.search(r"--block-density (\S+)", words)
    if found:
        size = re.search(r"--block-size (\d+),(\d+)", words)
        return "block mask, %s x %s, %g %% kept" % (*(size.groups() if size else ("64", "64")), 100 * float(found.group(1)))
    return re.sub(r"^--(feature )?", "", words).replace("window", "window,").replace("_", " ")


def features(data, cells):
    """TFLOP/s with each score modification; in brackets the share of a plain call that computes as many pairs."""
    def columns_of(cell):
        return (cell["d"], cell["causal"])
    def share(cell):
        if cell.get("share"):
            return cell["share"]
        plain = [other["tflops"] for other in cells if not feature_name(other) and length_of(other) == length_of(cell)
                 and columns_of(other) == columns_of(cell)]
        plain = cell.get("plain_as_long_tflops") or cell.get("plain_tflops") or (plain[0] if plain else None)
        return cell["tflops"] / plain if plain else None
    cells = [cell for cell in cells if length_of(cell) == 4096]
    columns = sorted({columns_of(cell) for cell in cells})
    rows = []
    for name in sorted({feature_name(cell) for cell in cells}, key=lambda name: (bool(name), "," in name, name)):
        row = [name or "plain"]
        for column in columns:
            found = [cell for cell in cells if feature_name(cell) == name and columns_of(cell) == column]
            row.append("" if not found else "%.0f" % found[0]["tflops"] if not name or not share(found[0]) else
                       "%.0f (%.2f)" % (found[0]["tflops"], share(found[0])))
        rows.append(row)
    return table(["TFLOP/s, n 4096 (share)"] + ["d %d, %s" % (d, MASKS[causal]) for d, causal in columns], rows)


def certified(data, cells):
    """What `clattn verify --full` found."""
    rows = [["`%s`%s" % (run["skeleton"], {True: ", any order", False: ", in order"}.get(run.get("unordered"), "")), run["commit"],
             "%d of %d" % (run["passed"], run["cases"]),
             "%.0f %%" % (100 * run["largest_error_share"]) if "largest_error_share" in run else ""] for run in cells]
    return table(["kernel", "commit (seed)", "cases passed", "largest error, share of what is allowed"], rows)


def bench_rows(data, cells):
    """Rows of `clattn bench`: speed, share of the peak and standard attention beside it."""
    cells = [cell for cell in cells if cell["n_q"] == cell["n_kv"]]
    fits = max(cell["tflops"] or 0 for cell in cells) < 2
    rows = []
    for key in sorted({(cell["pass"] == "backward", cell["d"], cell["causal"]) for cell in cells}):
        row = ["%s, d %d, %s" % ("backward" if key[0] else "forward", key[1], MASKS[key[2]])]
        for n in sorted({cell["n_kv"] for cell in cells}):
            found = [cell for cell in cells if (cell["pass"] == "backward", cell["d"], cell["causal"]) == key
                     and cell["n_kv"] == n]
            row.append("" if not found else "%.0f, %.0f %%%s" % (
                found[0]["tflops"] * (1e3 if fits else 1), 100 * found[0]["share_of_peak"],
                " (%.0fx)" % (found[0]["standard_ms"] / found[0]["median_ms"]) if found[0].get("standard_ms") else ""))
        rows.append(row)
    return table(["%s, share of the peak (x standard attention)" % ("GFLOP/s" if fits else "TFLOP/s")] +
                 ["n %d" % n for n in sorted({cell["n_kv"] for cell in cells})], rows)


def first_call(data, cells):
    """What tests/peers/first_call.py found: seconds of CPU time."""
    rows = [[cell["problem"] + ", " + cell["dtype"], "%.1f" % cell["cold"]["cpu_s"], "%.2f" % cell["warm"]["cpu_s"]] for cell in cells]
    return table(["`clattn run`, from start to exit", "seconds, caches empty", "seconds, caches warm"], rows)


def tuning(data, cells):
    """Time of the planner's choice divided by that of the tuned one."""
    rows = []
    for key in sorted({(cell["dtype"], cell["pass"] == "backward", cell["d"], cell["causal"]) for cell in cells}):
        found = {cell["n"]: cell for cell in cells
                 if (cell["dtype"], cell["pass"] == "backward", cell["d"], cell["causal"]) == key}
        rows.append(["%s, %s, d %d, %s" % (key[0], "backward" if key[1] else "forward", key[2], MASKS[key[3]])] +
                    ["%.2f" % (found[n]["untuned_ms"] / found[n]["tuned_ms"]) if n in found and found[n].get("tuned_ms")
                     else "" for n in sorted({cell["n"] for cell in cells})])
    return table(["untuned / tuned time"] + ["n %d" % n for n in sorted({cell["n"] for cell in cells})], rows)


KINDS = {function.__name__.replace("_", "-"): function
         for function in (grid, summary, shapes, features, certified, bench_rows, first_call, tuning)}


def source(data, file, cells, wishes, with_command):
    """Where a table comes from: file, device, driver, commit, command."""
    first = cells[0]
    said = data if isinstance(data, dict) else {}
    commit = wishes.get("commit", "-") if wishes.get("commit", "-") != "-" else said.get("commit")
    parts = ["[%s](%s)" % (os.path.basename(file), file), said.get("device") or first.get("device"),
             "driver " + (said.get("driver") or first.get("driver"))]
    if said.get("torch"):
        parts.append("PyTorch " + said["torch"].split("+")[0])
    parts += ["%s %s" % (VERSIONS[name], version.split("+")[0]) for name, version in said.get("versions", {}).items()]
    if commit:
        parts.append("commit " + re.sub(r"\b([0-9a-f]{7})[0-9a-f]{33}\b", r"\1", commit))
    lines = [", ".join(parts) + "."]
    if with_command and said.get("command"):
        lines += ["", "    " + re.sub(r" --(commit|json|clattn|device) \S+", "", said["command"])]
    return lines


def made(folder, words):
    kind, file, *pairs = words.split()
    wishes = dict(pair.split("=", 1) for pair in pairs)
    with_command = wishes.pop("command", "yes") == "yes"
    with open(os.path.join(folder, file), encoding="utf-8") as stream:
        data = json.load(stream)
    cells = picked(data if isinstance(data, list) else data.get("cells") or data["runs"], wishes)
    if not cells:
        sys.exit("%s: no cell is as '%s' says" % (file, words))
    return KINDS[kind](data, cells) + [""] + source(data, file, cells, wishes, with_command)


def rewritten(folder, text):
    def fill(match):
        return "\n".join([match.group(1), *made(folder, match.group(2)), "<!-- /table -->"])
    return re.sub(r"(<!-- table (.*?) -->)\n.*?<!-- /table -->", fill, text, flags=re.DOTALL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder")
    parser.add_argument("document")
    arguments = parser.parse_args()
    with open(arguments.document, encoding="utf-8") as file:
        text = file.read()
    new = rewritten(arguments.folder, text)
    if not arguments.check:
        with open(arguments.document, "w", encoding="utf-8") as file:
            file.write(new)
    elif new != text:
        for ours, theirs in zip(new.splitlines(), text.splitlines()):
            if ours != theirs:
                sys.exit("%s: is not what the measured rows say, first here:\n%s\nwhich should be\n%s\n(mend it: "
                         "measured_tables.py FOLDER DOCUMENT)" % (arguments.document, theirs, ours))
        sys.exit(arguments.document + ": has lines beyond its tables' ends")


if __name__ == "__main__":
    main()
