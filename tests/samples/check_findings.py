#!/usr/bin/env python3
"""Runs the digits sample under `ddpscope run` and compares its findings with expected.txt.

Everything above a note is compared: an expected finding that is absent and an unexpected one that
is present both fail, as does a rank that does not have what the others have.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys


def expected_findings(file, bug):
    rows = []
    for line in file.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, *row = re.split(r"\s{2,}", line.strip())
        if len(row) != 5:
            sys.exit(f"{file}: not six columns: {line}")
        if name == bug:
            rows.append(tuple("" if word == "-" else word for word in row))
    if not rows and bug != "none":
        sys.exit(f"{file}: nothing is expected of {bug}")
    return sorted(rows)


def found_findings(report, ranks):
    rows = []
    for finding in report["findings"]:
        if finding["severity"] == "note":
            continue
        row = tuple(finding[key] for key in ("id", "severity", "module_path", "subject"))
        rows.append(row + (finding["facts"].get("cause", ""),))
        if sorted(finding["ranks"]) != list(range(ranks)):
            sys.exit(f"{row} is reported for the ranks {finding['ranks']} of {ranks}")
    return sorted(rows)


def reached_accuracy(output):
    return max((float(number) for number in re.findall(r"accuracy ([0-9.]+) %", output)), default=0)


def main():
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "data", "expected", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--bug", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--steps", type=int, help="without it, two epochs")
    parser.add_argument("--accuracy", type=float, default=0)
    args = parser.parse_args()

    shutil.rmtree(args.out, ignore_errors=True)
    command = [args.tool, "run", "--nproc", str(args.ranks), "--out", args.out, "--"]
    command += [args.program, "--data", args.data, "--bug", args.bug]
    if args.steps:
        command += ["--steps", str(args.steps)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", timeout=200)
    print(run.stdout)

    expected = expected_findings(args.expected, args.bug)
    found = found_findings(json.loads((args.out / "report.json").read_text()), args.ranks)
    for row in expected:
        print("expected", row)
    for row in found:
        print("found   ", row)
    if found != expected:
        sys.exit("the findings differ")
    status = 1 if any(row[1] == "error" for row in expected) else 0
    if run.returncode != status:
        sys.exit(f"ddpscope run ended with {run.returncode}, not {status}")
    if reached_accuracy(run.stdout) < args.accuracy:
        sys.exit(f"the accuracy stays below {args.accuracy} %")


main()
