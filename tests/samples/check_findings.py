#!/usr/bin/env python3
"""Runs a sample under `ddpscope run` and compares its findings with its expected.txt.

Everything above a note is compared: an expected finding that is absent and an unexpected one that
is present both fail, as does a rank that does not have what the others have. Without a mistake the
table must also have rows for exactly the mistakes that the sample lists, and samples/README.md must
name them. With --strip a stripped copy of the program is run: its sites must have no line, and
`ddpscope show --symbols` must find them. What stands after `--` is given to the sample.
"""
import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from findings_table import (FIRST_FAILURE, NO_LINE, SITES, compare, expected_on, found_rows,
                            read_table, throws)


def without_lines(rows, columns):
    def change(column, word):
        return re.sub(r"[^;]+", NO_LINE, word).replace(";", "; ") if column in SITES else word
    return sorted(tuple(map(change, columns, row)) for row in rows)


def check_symbols(args, columns, expected, output):
    """The stripped program gave no line; its file as it was built gives all of them."""
    if re.search(r"\bmain\.cpp:\d", output):
        sys.exit("a program without debug information gave a line")
    show = [args.tool, "show", args.out / "report", "--json", "--symbols", args.program.parent]
    shown = subprocess.run(show, stdout=subprocess.PIPE, text=True, check=False)
    found = found_rows(json.loads(shown.stdout), args.ranks, columns, args.expected.parent,
                       expected)
    compare("with --symbols", expected, found)


def reached_accuracy(output):
    return max((float(number) for number in re.findall(r"accuracy ([0-9.]+) %", output)), default=0)


def check_listed_bugs(program, table, readme):
    listed = subprocess.run([program, "--list-bugs"], stdout=subprocess.PIPE, text=True, check=True)
    difference = set(listed.stdout.split()) ^ set(table)
    if difference:
        sys.exit("the sample and its table differ in " + ", ".join(sorted(difference)))
    unnamed = [bug for bug in table if bug != "none" and f"`{bug}`" not in readme]
    if unnamed:
        sys.exit("samples/README.md does not name " + ", ".join(unnamed))


def expected_status(expected):
    if throws(expected):
        return 2
    if any(row[0] == FIRST_FAILURE for row in expected):
        return 134  # abort
    return 1 if any(row[1] == "error" for row in expected) else 0


def read_arguments():
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "expected", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--bug", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--accuracy", type=float, default=0)
    parser.add_argument("--strip", type=shlex.split, help="the command")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args()


def run_sample(args):
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    program = args.program
    if args.strip:
        program = args.out / "stripped"
        subprocess.run(args.strip + ["-o", program, args.program], check=True)
    command = [args.tool, "run", "--nproc", str(args.ranks), "--out", args.out / "report", "--"]
    command += [program, "--bug", args.bug] + args.arguments
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", timeout=200)
    print(run.stdout)
    return run


def main():
    args = read_arguments()
    run = run_sample(args)
    columns, table = read_table(args.expected)
    if args.bug == "none":
        check_listed_bugs(args.program, table, (args.expected.parents[1] / "README.md").read_text())
    expected = expected_on(args.ranks, table[args.bug])
    report = json.loads((args.out / "report/report.json").read_text())
    found = found_rows(report["findings"], args.ranks, columns, args.expected.parent, expected)
    compare("", without_lines(expected, columns) if args.strip else expected, found)
    if args.strip:
        check_symbols(args, columns, expected, run.stdout)
    if run.returncode != expected_status(expected):
        sys.exit(f"ddpscope run ended with {run.returncode}, not {expected_status(expected)}")
    if reached_accuracy(run.stdout) < args.accuracy:
        sys.exit(f"the accuracy stays below {args.accuracy} %")


main()
