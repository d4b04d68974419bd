#!/usr/bin/env python3
"""Draws docs/speed.svg from bench/speed.csv: how many times as fast attend is as PyTorch, measured in
the same run on the same machine. python3 bench/speed_picture.py"""
import csv
import os

LEFT, UNIT, ROW, TOP = 270, 62, 34, 40
STYLE = (".t{fill:#1b1f24}.g{stroke:#c9d1d9}.b{fill:#2f6fde}.bg{fill:#ffffff}"
         "@media (prefers-color-scheme: dark){.t{fill:#e6edf3}.g{stroke:#30363d}.b{fill:#5b93ff}"
         ".bg{fill:#0d1117}}")


def text(x, y, words, more=""):
    return f'<text class="t" x="{x}" y="{y}"{more}>{words}</text>'


def panel(machine, rows, top):
    """A title, a scale, and a bar for each row; returns lines and the height."""
    bottom = top + TOP + ROW * len(rows)
    out = [text(16, top + 26, f"Times as fast as PyTorch 2.11 on the same {machine}",
                ' font-size="16" font-weight="600"')]
    for i in range(8):
        x = LEFT + UNIT * i
        how = 'stroke-width="2"' if i == 1 else 'stroke-dasharray="3 4"'
        out.append(f'<line class="g" x1="{x}" y1="{top + TOP}" x2="{x}" y2="{bottom + 6}" {how}/>')
        out.append(text(x, bottom + 22, f"{i}x", ' text-anchor="middle" font-size="12"'))
    for i, (what, ratio) in enumerate(rows):
        y = top + TOP + 6 + ROW * i
        width = round(UNIT * ratio, 1)
        out.append(text(LEFT - 10, y + 15, what, ' text-anchor="end"')
                   + f'<rect class="b" x="{LEFT}" y="{y}" width="{width}" height="20" rx="3"/>'
                   + text(round(LEFT + width + 6, 1), y + 15, f"{ratio:.2f}", ' font-weight="600"'))
    return out, TOP + ROW * len(rows) + 40


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    machines = {}
    with open(os.path.join(here, "speed.csv"), encoding="utf-8") as f:
        for row in csv.DictReader(f):
            machines.setdefault(row["machine"], []).append((row["what"], float(row["ratio"])))
    lines, height = [], 0
    for machine, rows in machines.items():
        drawn, more = panel(machine, rows, height)
        lines += drawn
        height += more
    with open(os.path.join(here, "..", "docs", "speed.svg"), "w", encoding="utf-8") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" '
                f'height="{height}" font-family="system-ui, sans-serif" font-size="14">\n'
                f'<style>{STYLE}</style>\n<rect class="bg" width="760" height="{height}"/>\n')
        f.write("\n".join(lines) + "\n</svg>\n")


if __name__ == "__main__":
    main()
