#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the table and the kept figures of exactness.py's --lines files.

    exactness_table.py lines.json --out tests/data/measured/xeon-exactness.json --commit 1234567 --device "Xeon, PoCL 5.0"

Printed is a table in Markdown: ratios of errors beside one run of PyTorch, and beside the root mean square of its orders; behind
clattn's 99th percentiles those of PyTorch itself, with head dimensions reversed. Where clattn's is above what is wanted, and
PyTorch's own is not, the figure is bold.
"""
import argparse
import json
import math

NAMES = {"o": "O", "dq": "dQ", "dk": "dK", "dv": "dV", "dbias": "dbias", "dsink": "d_sinks"}
WANTED = {"o": 2.0}
OF_GRADIENTS = 3.0


def percentile(values, share):
    """As NumPy's: linear between neighbours."""
    ordered = sorted(values)
    place = share / 100.0 * (len(ordered) - 1)
    low = math.floor(place)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)


def rows_of(paths):
    rows = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    row = json.loads(line)
                    rows[row["problem"]] = row
    return [rows[n] for n in sorted(rows)]


def ratios_of(row, who):
    """Of each tensor the ratio beside the first order, and beside the root mean square of all."""
    errors, found = row["errors"], {}
    orders = [errors[name] for name in sorted(errors) if name.startswith("order ")]
    for name in NAMES:
        if name in errors[who]:
            least = errors["least"][name]
            peers = (errors["order 0"][name], math.sqrt(sum(peer[name] ** 2 for peer in orders) / len(orders)))
            found[NAMES[name]] = [errors[who][name] / max(peer, least) for peer in peers]
    return found


def kept(row):
    size, kind = row["shape"], row["kind"]
    found = {"problem": row["problem"], "features": kind["features"], "d": kind["d"], "d_v": kind["d_v"], "n_q": size["n_q"],
             "n_kv": size["n_kv"], "heads": size["heads"]}
    for who in ("clattn", "itself"):
        found[who] = {name: [round(x, 2) for x in pair] for name, pair in ratios_of(row, who).items()}
    return found


def figure(ours, itself, wanted):
    text = "%.2f" % ours
    return ("**%s**" % text if ours > wanted >= itself else text) + ", %.2f" % itself


def print_table(rows):
    ours, itself = ([ratios_of(row, who) for row in rows] for who in ("clattn", "itself"))
    print("| tensor | problems | median | 99th, and PyTorch itself | of all orders: median | 99th, and PyTorch itself | wanted |")
    print("|---|---|---|---|---|---|---|")
    for key, name in NAMES.items():
        columns, wanted = [], WANTED.get(key, OF_GRADIENTS)
        pairs = [(mine[name], its[name]) for mine, its in zip(ours, itself) if name in mine]
        for at in (0, 1):
            mine, its = ([pair[who][at] for pair in pairs] for who in (0, 1))
            columns += ["%.2f" % percentile(mine, 50), figure(percentile(mine, 99), percentile(its, 99), wanted)]
        print("| %s | %d | %s | %g |" % (name, len(pairs), " | ".join(columns), wanted))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="+")
    parser.add_argument("--out", metavar="FILE", help="keep each problem's ratios there")
    parser.add_argument("--command", default="exactness.py --problems 500 --itself --orders 8 --jobs N --lines FILE")
    parser.add_argument("--commit", default="")
    parser.add_argument("--device", default="")
    parser.add_argument("--pytorch", default="")
    arguments = parser.parse_args()
    rows = rows_of(arguments.lines)
    print_table(rows)
    if arguments.out:
        head = {"command": arguments.command, "commit": arguments.commit, "device": arguments.device,
                "pytorch": arguments.pytorch, "dtype": "fp32",
                "meaning": "ratios of errors to float64: over those of one run of PyTorch, and over the root mean square of 8 "
                           "orders of it; itself: PyTorch, head dimensions reversed"}
        lines = ["  " + json.dumps(kept(row)) for row in rows]
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(head, indent=1)[:-2] + ",\n \"problems\": [\n" + ",\n".join(lines) + "\n ]\n}\n")


main()
