#!/usr/bin/env python3
"""Runs the sample `scaled`: steps with a scale that is too high are skipped, and each halves it;
those after them are clipped to the limit and learn."""
import argparse
import re
import subprocess
import sys

STEP = re.compile(r"step (\d+): norm (\S+), coefficient ([\d.]+), next scale (\S+)")
END = re.compile(r"loss from ([\d.]+) to ([\d.]+), (\d+) of (\d+) steps skipped")


def demand(fine, what):
    if not fine:
        sys.exit(what)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    program = parser.parse_args().program
    text = subprocess.run([program, "--steps", "60"], stdout=subprocess.PIPE, text=True,
                          timeout=100, check=True).stdout
    steps = [(int(step), float(norm), float(coefficient), float(scale))
             for step, norm, coefficient, scale in STEP.findall(text)]
    first, last, skipped, count = (float(number) for number in END.search(text).groups())
    bad = [step for step in steps if step[1] in (float("inf"),) or step[1] != step[1]]
    demand(count == 60 and 1 <= skipped < 20, f"{skipped} of {count} steps skipped")
    demand(len(bad) == skipped, f"{len(bad)} norms are not finite, {skipped} steps were skipped")
    demand([step[3] for step in bad] == [2.0 ** (21 - i) for i in range(len(bad))],
           f"the scales after skipped steps are {[step[3] for step in bad]}")
    for step, norm, coefficient, _ in steps:
        expected = min(1, 0.5 / norm) if norm not in (float("inf"),) and norm == norm else 1
        demand(abs(coefficient - expected) < 1e-3, f"step {step}: {coefficient} for norm {norm}")
    demand(last < first / 2, f"losses from {first} to {last}")


main()
