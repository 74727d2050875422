#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Draws the README's picture, clattn beside its peers, from measured rows.

    overview_picture.py FOLDER PICTURE.svg            draws it
    overview_picture.py --check FOLDER PICTURE.svg    exit status 1 where it is not what the rows say

FOLDER has h200-peers.json and pocl-epyc-torch.json. Panels of one device have one scale. Colours are those of Okabe and Ito,
which people who are colour-blind tell apart. A line on a bar goes from the lowest to the highest round, where there were several.
"""
import argparse
import json
import os
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, TOP, LEFT, PANEL_HEIGHT, ROW_GAP = 1000, 572, 74, 62, 176, 72
SERIES = {"clattn": ("clattn", "#0072B2"), "flash4": ("FlashAttention-4", "#D55E00"), "cudnn": ("cuDNN", "#009E73"),
          "flash2": ("FlashAttention-2", "#B0B0B0"), "flash": ("PyTorch, CPU", "#E69F00")}
COLUMNS = [("h200-peers.json", "forward", "H200, forward", "TFLOP/s", 1.0, 800, 200, 62, 310),
           ("h200-peers.json", "backward", "H200, backward", "TFLOP/s", 1.0, 800, 200, 402, 310),
           ("pocl-epyc-torch.json", "forward", "CPU, 2 cores, forward", "GFLOP/s", 1e3, 500, 100, 780, 200)]


def text(x, y, words, size=12, anchor="middle", weight="normal", fill="#222222"):
    return '<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" font-weight="%s" fill="%s">%s</text>' % (
        x, y, size, anchor, weight, fill, escape(words))


def line(x1, y1, x2, y2, stroke="#222222", width=1.0):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>' % (x1, y1, x2, y2, stroke, width)


def length_of(cell):
    return cell.get("n", cell.get("n_kv"))


def bar(cell, name, x, width, base, scale, times):
    height = cell["tflops"][name] * times * scale
    lines = ['<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (x, base - height, width, height, SERIES[name][1])]
    rounds = cell.get("times", {}).get(name, [])
    if len(rounds) > 1:
        ends = [base - height * cell["median_ms"][name] / extreme for extreme in (min(rounds), max(rounds))]
        lines.append(line(x + width / 2, ends[0], x + width / 2, ends[1]))
    return lines


def panel(cells, column, d, top):
    _, _, _, unit, times, most, step, left, width = column
    base, scale = top + PANEL_HEIGHT, PANEL_HEIGHT / most
    lines = []
    for mark in range(0, most + 1, step):
        y = base - mark * scale
        lines += [line(left, y, left + width, y, "#DDDDDD"), text(left - 6, y + 4, "%d" % mark, 11, "end")]
    lines.append(text(left - 6, top - 10, unit, 11, "end"))
    clusters = sorted({(cell["causal"], length_of(cell)) for cell in cells})
    names = [name for name in SERIES if name in cells[0]["tflops"]]
    pitch = width / len(clusters)
    each = pitch * 0.82 / len(names)
    for i, (causal, n) in enumerate(clusters):
        cell = next(cell for cell in cells if (cell["causal"], length_of(cell)) == (causal, n))
        start = left + i * pitch + pitch * 0.09
        for j, name in enumerate(names):
            lines += bar(cell, name, start + j * each, each - 1, base, scale, times)
        lines.append(text(left + (i + 0.5) * pitch, base + 14, "%d" % n, 11))
    for half, mask in enumerate(("full", "causal")):
        lines.append(text(left + (0.25 + 0.5 * half) * width, base + 28, "n, " + mask, 11, fill="#555555"))
    lines += [line(left + width / 2, top, left + width / 2, base + 30, "#AAAAAA"), line(left, base, left + width, base)]
    lines.append(text(left + width / 2, top - 10, "%s, d %d" % (column[2], d), 13, weight="bold"))
    return lines


def legend():
    lines, x = [], LEFT
    for name, (title, colour) in SERIES.items():
        lines += ['<rect x="%d" y="18" width="13" height="13" fill="%s"/>' % (x, colour), text(x + 19, 29, title, 13, "start")]
        x += 48 + 7 * len(title)
    return lines


def picture(folder):
    data = {}
    for file in {column[0] for column in COLUMNS}:
        with open(os.path.join(folder, file), encoding="utf-8") as stream:
            data[file] = json.load(stream)
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif">'
             % (WIDTH, HEIGHT, WIDTH, HEIGHT), '<rect width="100%" height="100%" fill="white"/>', *legend()]
    for column in COLUMNS:
        for row, d in enumerate((64, 128)):
            cells = [cell for cell in data[column[0]]["cells"]
                     if cell["pass"] == column[1] and cell["d"] == d and cell.get("set", "grid") == "grid"]
            lines += panel(cells, column, d, TOP + row * (PANEL_HEIGHT + ROW_GAP))
    gpu, cpu = data["h200-peers.json"], data["pocl-epyc-torch.json"]
    foot = TOP + 2 * PANEL_HEIGHT + ROW_GAP + 54
    lines += [text(LEFT, foot, "H200: fp16 (n 4096: bf16), 16384 rows, hidden dimension 2048; dQ added up in any order; %s, clattn %s, "
                   "PyTorch %s, cuDNN %s, FlashAttention-4 %s" % (gpu["device"], gpu["commit"], gpu["versions"]["torch"].split("+")[0],
                                                                 gpu["versions"]["cudnn"], gpu["versions"]["flash-attn-4"]),
                   11, "start", fill="#555555"),
              text(LEFT, foot + 16, "CPU: fp32, 8 heads; AMD EPYC, AVX-512, PoCL %s, clattn %s, PyTorch %s; a line on a bar: the lowest and the "
                   "highest of %d rounds. Higher is faster." % (cpu["driver"].split("+")[0], cpu["commit"][:7],
                                                               cpu["torch"].split("+")[0], cpu["rounds"]), 11, "start", fill="#555555"),
              "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder")
    parser.add_argument("picture")
    arguments = parser.parse_args()
    drawn = picture(arguments.folder)
    if not arguments.check:
        with open(arguments.picture, "w", encoding="utf-8") as file:
            file.write(drawn)
        return
    with open(arguments.picture, encoding="utf-8") as file:
        if file.read() != drawn:
            sys.exit("%s: is not what the measured rows say: overview_picture.py FOLDER PICTURE.svg draws it" % arguments.picture)


if __name__ == "__main__":
    main()
