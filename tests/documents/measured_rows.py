#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes rows that `clattn bench --from` draws of measured cells that have peers.

    measured_rows.py CELLS.json ROWS.json
    clattn bench --from ROWS.json --plot PICTURE.svg

CELLS.json is what tests/peers/torch_sdpa.py --json keeps, or a file of tests/data/measured with such cells. Of those with a
`set`, the grid is taken.
"""
import json
import sys

from measured_tables import length_of, naming


def times_of(cell, name):
    """Median, and where there were several rounds, the extremes."""
    rounds = cell.get("times", {}).get(name, [])
    times = {"median_ms": cell["median_ms"][name]}
    return {**times, "min_ms": min(rounds), "max_ms": max(rounds)} if len(rounds) > 1 else times


def rows_of(data):
    cells = [cell for cell in data["cells"] if cell.get("set", "grid") == "grid" and cell["median_ms"].get("clattn")]
    names = naming(data, cells)[0]
    rows = []
    for cell in cells:
        n, heads = length_of(cell), cell["heads"]
        rows.append({"device": data["device"], "driver": data["driver"], "path": cell["path"], "grid": "flash",
                     "pass": cell["pass"], "dtype": cell["dtype"], "batch": cell["batch"], "heads": heads,
                     "kv_heads": cell.get("kv_heads", heads), "n_q": cell.get("n_q", n), "n_kv": n, "d": cell["d"],
                     "d_v": cell.get("d_v", cell["d"]), "causal": cell["causal"], **times_of(cell, "clattn"),
                     "tflops": cell["tflops"]["clattn"], "features": [],
                     "peers": {names[name]: times_of(cell, name) for name in cell["median_ms"] if name != "clattn"}})
    return rows


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = rows_of(json.load(file))
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
