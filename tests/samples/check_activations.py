#!/usr/bin/env python3
"""Runs the sample `activations` twice: into a pipe, where its tables must be plain lines with
numbers that each layer can give, and on a terminal, where each table must cover the one before."""
import argparse
import os
import pty
import re
import subprocess
import sys

LAYERS = ["in", "tanh", "hidden", "norm", "relu", "out", "sigmoid"]
SATURATING = {"tanh", "relu", "sigmoid"}
TITLE = re.compile(r"step (\d+) of (\d+), loss ([\d.]+)")


def demand(fine, what):
    if not fine:
        sys.exit(what)


def number(cell):
    return None if cell == "-" else float(cell)


def tables(text):
    """(step, loss, {layer: (mean, deviation, zeros, saturated)}) of each table."""
    found = []
    for block in text.strip().split("\n\n"):
        title, heads, *rows = block.splitlines()
        step, _, loss = TITLE.fullmatch(title).groups()
        demand(heads.split() == ["layer", "type", "mean", "deviation", "zeros", "saturated"], heads)
        cells = [row.replace(" %", "").split() for row in rows]
        demand([row[0] for row in cells] == LAYERS, f"the layers are {cells}")
        layers = {row[0]: [number(cell) for cell in row[2:]] for row in cells}
        found.append((int(step), float(loss), layers))
    return found


def check_numbers(table):
    step, _, layers = table
    for name, (_, deviation, zeros, saturated) in layers.items():
        demand(deviation > 0, f"step {step}: {name} gives one value only")
        demand((zeros > 0) == (name == "relu"), f"step {step}: {name} has {zeros} % zeros")
        demand((saturated is None) == (name not in SATURATING), f"{name}: saturated {saturated}")
    demand(abs(layers["tanh"][0]) < 1 and layers["tanh"][1] <= 1, f"{layers['tanh']} of tanh")
    demand(0 < layers["sigmoid"][0] < 1, f"{layers['sigmoid']} of sigmoid")
    demand(layers["relu"][0] > 0, f"{layers['relu']} of relu")


def check_plain(program, steps):
    run = subprocess.run([program, "--steps", str(steps)], stdout=subprocess.PIPE, text=True,
                         timeout=100, check=True)
    demand("\033" not in run.stdout, "a pipe received what moves the cursor of a terminal")
    found = tables(run.stdout)
    demand([step for step, _, _ in found] == [1] + [steps * part // 4 for part in (1, 2, 3, 4)],
           f"tables of the steps {[step for step, _, _ in found]}")
    for table in found:
        check_numbers(table)
    # A new BatchNorm has weight 1 and bias 0: what it gives has mean 0 and deviation 1.
    demand(found[0][2]["norm"][:2] == [0, 1], f"{found[0][2]['norm']} of norm in step 1")
    demand(found[-1][1] < found[0][1] / 2, f"losses from {found[0][1]} to {found[-1][1]}")


def on_terminal(command):
    """What the command writes to a terminal."""
    process, terminal = pty.fork()
    if process == 0:
        os.execv(command[0], command)
    parts = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:
        pass  # the other end is closed
    demand(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0, "it failed on a terminal")
    return b"".join(parts).decode()


def check_terminal(program):
    text = on_terminal([program, "--steps", "20"]).replace("\r\n", "\n")
    lines = len(LAYERS) + 3
    first, *others = text.split(f"\033[{lines}A")
    demand(len(others) == 19, f"{len(others)} of 20 tables cover the one before")
    for step, table in enumerate([first, *others], 1):
        demand(table.startswith(f"step {step} of 20"), f"table {step} starts with {table[:20]!r}")
        demand(table.count("\033[K\n") == table.count("\n") == lines, f"{table!r} is not a table")
    demand("[" + "#" * 40 + "]" in others[-1], "the bar is not full at the end")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    args = parser.parse_args()
    check_plain(args.program, 200)
    check_terminal(args.program)


main()
