#!/usr/bin/env python3
"""Runs a sample whose ranks part, so that they hang or fail, under `ddpscope run`.

The run must end, and its merged report must have the findings of expected.txt, the first of them at
the step and on the rank that are given. What follows from them may stand beside them: collectives
that differ or hang, and how the processes ended. What stands after `--` is given to the sample."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

from findings_table import beyond_consequences, cell, read_table

LIMIT_S = 100


def read_arguments():
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "expected", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--bug", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--step", type=int, required=True)
    parser.add_argument("--on", type=int, nargs="+", required=True, help="ranks of the finding")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args()


def run_sample(args):
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    # That a peer is gone is an error of the call, and not at times a signal that ends the rank.
    command = [args.tool, "run", "--nproc", str(args.ranks), "--out", args.out / "report", "--",
               "env", "--ignore-signal=PIPE", args.program, "--bug", args.bug] + args.arguments
    environment = {**os.environ, "DDPSCOPE": "hang_after_s=2"}
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", timeout=LIMIT_S, env=environment, check=False)
    print(run.stdout)
    if run.returncode == 0:
        sys.exit("ddpscope run ended with 0")


def main():
    args = read_arguments()
    run_sample(args)
    columns, table = read_table(args.expected)
    findings = json.loads((args.out / "report/report.json").read_text())["findings"]
    loud = [finding for finding in findings if finding["severity"] != "note"]
    rows = {tuple(cell(f, column, findings, args.expected.parent) for column in columns): f
            for f in loud}
    if problem := beyond_consequences(table[args.bug], list(rows)):
        sys.exit(problem)
    cause = rows[table[args.bug][0]]
    if cause["step"] != args.step or cause["ranks"] != args.on:
        sys.exit(f"{cause['id']} is of step {cause['step']} on {cause['ranks']}")


main()
