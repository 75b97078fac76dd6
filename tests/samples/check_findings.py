#!/usr/bin/env python3
"""Runs a sample under `ddpscope run` and compares its findings with its expected.txt.

Everything above a note is compared: an expected finding that is absent and an unexpected one that
is present both fail, as does a rank that does not have what the others have. Without a mistake the
table must also have rows for exactly the mistakes that the sample lists, and samples/README.md must
name them. What stands after `--` is given to the sample.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys


def read_table(file):
    """The expected findings of each mistake."""
    table = {"none": []}
    for line in file.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        bug, *row = re.split(r"\s{2,}", line.strip())
        if len(row) not in (5, 6):
            sys.exit(f"{file}: neither six nor seven columns: {line}")
        table.setdefault(bug, []).append(tuple("" if word == "-" else word for word in row))
    return table


def found_findings(report, ranks, with_model):
    rows = []
    for finding in report["findings"]:
        if finding["severity"] == "note":
            continue
        row = tuple(finding[key] for key in ("id", "severity", "module_path", "subject"))
        row += (finding["facts"].get("cause", ""),)
        rows.append(row + (finding["model"],) if with_model else row)
        # A consequence may show where only some ranks go.
        is_of_some = finding["caused_by"] is not None or finding["id"] == "rank-first-failure"
        if not is_of_some and sorted(finding["ranks"]) != list(range(ranks)):
            sys.exit(f"{row} is reported for the ranks {finding['ranks']} of {ranks}")
    return sorted(rows)


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


def main():
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "expected", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--bug", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--accuracy", type=float, default=0)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()

    shutil.rmtree(args.out, ignore_errors=True)
    command = [args.tool, "run", "--nproc", str(args.ranks), "--out", args.out, "--"]
    command += [args.program, "--bug", args.bug] + args.arguments
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", timeout=200)
    print(run.stdout)

    table = read_table(args.expected)
    if args.bug == "none":
        check_listed_bugs(args.program, table, (args.expected.parents[1] / "README.md").read_text())
    expected = sorted(row for row in table[args.bug]
                      if args.ranks > 1 or row[0] != "rank-first-failure")
    with_model = any(len(row) == 6 for row in expected)
    report = json.loads((args.out / "report.json").read_text())
    found = found_findings(report, args.ranks, with_model)
    for row in expected:
        print("expected", row)
    for row in found:
        print("found   ", row)
    if found != expected:
        sys.exit("the findings differ")
    status = 1 if any(row[1] == "error" for row in expected) else 0
    if any(row[0] == "module-operator-failed" for row in expected):
        status = 2  # the sample ends on what was thrown
    if any(row[0] == "rank-first-failure" for row in expected):
        status = 134  # abort
    if run.returncode != status:
        sys.exit(f"ddpscope run ended with {run.returncode}, not {status}")
    if reached_accuracy(run.stdout) < args.accuracy:
        sys.exit(f"the accuracy stays below {args.accuracy} %")


main()
