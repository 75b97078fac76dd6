#!/usr/bin/env python3
"""Runs a sample under `ddpscope run` and compares its findings with its expected.txt.

Everything above a note is compared: an expected finding that is absent and an unexpected one that
is present both fail, as does a rank that does not have what the others have. Columns that are named
after sites hold what is remarked in the source at the line of each, so that lines may move. Without
a mistake the table must also have rows for exactly the mistakes that the sample lists, and
samples/README.md must name them. With --strip a stripped copy of the program is run: its sites must
have no line, and `ddpscope show --symbols` must find them. What stands after `--` is given to the
sample.
"""
import argparse
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

MEMBERS = ("id", "severity", "module_path", "subject", "model")
SITES = ("saved", "created", "changed", "used", "called", "registered")
NO_LINE = "no line"
# The sample ends on what was thrown.
THROWN = {"module-operator-failed", "autograd-inplace-saved", "autograd-multiview-inplace",
          "autograd-leaf-inplace", "autograd-double-backward", "norm-buffer-overwritten"}


def read_table(file):
    """The names of the columns, and the expected findings of each mistake."""
    columns, table = [], {"none": []}
    for line in file.read_text().splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if line.startswith("# bug "):
            columns = ["bug"] + words[1:]
        elif line.strip() and not line.startswith("#"):
            if len(words) != len(columns):
                sys.exit(f"{file}: not {len(columns)} columns: {line}")
            row = tuple("" if word == "-" else word for word in words[1:])
            table.setdefault(words[0], []).append(row)
    return columns[1:], table


def remark(site, folder):
    """What is remarked at the line of the program's own first frame."""
    own = next((frame for frame in site["frames"] if not frame["library"]), None)
    if own is None or own["line"] == 0:
        return NO_LINE
    file = pathlib.Path(own["file"])
    if file.parent != folder:
        return f"{file}:{own['line']}"
    lines = [line.partition("//")[2].strip() for line in file.read_text().splitlines()]
    text = lines[own["line"] - 1]
    return text if lines.count(text) == 1 else f"{file.name}:{own['line']} {text}"


def cell(finding, column, findings, folder):
    if column in MEMBERS:
        return finding[column]
    if column == "caused_by":
        cause = finding[column]
        return next((other["id"] for other in findings if other["fingerprint"] == cause), "")
    if column in SITES:
        sites = [site for site in finding["sites"] if site["role"] == column]
        return "; ".join(remark(site, folder) for site in sites)
    return finding["facts"].get(column, "")


def found_findings(findings, ranks, columns, folder):
    rows = []
    for finding in findings:
        if finding["severity"] == "note":
            continue
        row = tuple(cell(finding, column, findings, folder) for column in columns)
        rows.append(row)
        # A consequence may show where only some ranks go.
        is_of_some = finding["caused_by"] is not None or finding["id"] == "rank-first-failure"
        if not is_of_some and sorted(finding["ranks"]) != list(range(ranks)):
            sys.exit(f"{row} is reported for the ranks {finding['ranks']} of {ranks}")
    return sorted(rows)


def without_lines(rows, columns):
    def change(column, word):
        return re.sub(r"[^;]+", NO_LINE, word).replace(";", "; ") if column in SITES else word
    return sorted(tuple(map(change, columns, row)) for row in rows)


def compare(what, expected, found):
    for row in expected:
        print("expected", row)
    for row in found:
        print("found   ", row)
    if found != expected:
        sys.exit(f"the findings differ {what}")


def check_symbols(args, columns, expected, output):
    """The stripped program gave no line; its file as it was built gives all of them."""
    if re.search(r"\bmain\.cpp:\d", output):
        sys.exit("a program without debug information gave a line")
    show = [args.tool, "show", args.out / "report", "--json", "--symbols", args.program.parent]
    shown = subprocess.run(show, stdout=subprocess.PIPE, text=True, check=False)
    found = found_findings(json.loads(shown.stdout), args.ranks, columns, args.expected.parent)
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
    ids = {row[0] for row in expected}
    if "rank-first-failure" in ids:
        return 134  # abort
    if ids & THROWN:
        return 2
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
    expected = sorted(row for row in table[args.bug]
                      if args.ranks > 1 or row[0] != "rank-first-failure")
    report = json.loads((args.out / "report/report.json").read_text())
    found = found_findings(report["findings"], args.ranks, columns, args.expected.parent)
    compare("", without_lines(expected, columns) if args.strip else expected, found)
    if args.strip:
        check_symbols(args, columns, expected, run.stdout)
    if run.returncode != expected_status(expected):
        sys.exit(f"ddpscope run ended with {run.returncode}, not {expected_status(expected)}")
    if reached_accuracy(run.stdout) < args.accuracy:
        sys.exit(f"the accuracy stays below {args.accuracy} %")


main()
