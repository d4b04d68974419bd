#!/usr/bin/env python3
"""A C program on the library beside `attend generate`: the same model, the same tokens.

    python3 bench/library.py [--build build] [--rounds 21] [--tokens 100] [--busy 2] [MODEL]

Runs examples/09_generate and `attend generate` in turn, so that both meet the same
machine: first alone, then with --busy loops beside them that take all of a core.
Prints the median of tokens a second of each, the ratio of the two, the median of the
rounds' ratios, and the ratio of the best of each. MODEL is a folder (default: the
tests' stories260K) whose model writes --tokens of them before a text ends.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

PROMPT = "Once upon a time"


def library_rate(build, model, tokens):
    out = subprocess.run([f"{build}/examples/09_generate", model, PROMPT, str(tokens)],
                         check=True, capture_output=True, text=True).stdout
    count, rate = re.search(r"\((\d+) tokens, ([\d.]+) a second\)", out).groups()
    return int(count), float(rate)


def program_rate(build, model, tokens):
    out = subprocess.run([f"{build}/attend", "generate", model, "--prompt", PROMPT,
                          "--tokens", str(tokens), "--json"],
                         check=True, capture_output=True, text=True).stdout
    row = json.loads(out)[0]
    count = len(row["ids"])
    return count, count / row["new_s"]


def busy_loops(n):
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]


def compare(name, args, model):
    rates = {library_rate: [], program_rate: []}
    for i in range(args.rounds):
        counts = set()
        for measure in (library_rate, program_rate)[:: -1 if i % 2 else 1]:
            count, rate = measure(args.build, model, args.tokens)
            rates[measure].append(rate)
            counts.add(count)
        if len(counts) > 1:
            sys.exit(f"they wrote {counts} tokens: choose a smaller --tokens")
    library, program = rates.values()
    ratios = [statistics.median(library) / statistics.median(program),
              statistics.median(a / b for a, b in zip(library, program)),
              max(library) / max(program)]
    print(f"| {name} | {statistics.median(library):.0f} | {statistics.median(program):.0f} | "
          + " | ".join(f"{r:.2f}" for r in ratios) + " |", flush=True)


def main():
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default=f"{top}/build")
    p.add_argument("--rounds", type=int, default=21)
    p.add_argument("--tokens", type=int, default=100)
    p.add_argument("--busy", type=int, default=2)
    p.add_argument("model", nargs="?", default=f"{top}/tests/golden/models/stories260K")
    args = p.parse_args()
    print("| beside it | library, tokens/s | attend generate | ratio | of rounds | of the best |")
    print("|---|---|---|---|---|---|")
    compare("nothing", args, args.model)
    loops = busy_loops(args.busy)
    try:
        compare(f"{args.busy} busy loops", args, args.model)
    finally:
        for loop in loops:
            loop.kill()


main()
