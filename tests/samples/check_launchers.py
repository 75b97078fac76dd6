#!/usr/bin/env python3
"""Runs a program that knows nothing of ddpscope under several launchers, on several numbers of
ranks. Every finding of the merged reports must be the same in all of these runs; with --expected
those above a note must be those of the table. What stands after `--` is given to the program."""
import argparse
import collections
import json
import pathlib
import shutil
import sys
import time

import rank_runs
from findings_table import (FIRST_FAILURE, OF_SEVERAL_RANKS, OF_THE_MACHINE, beyond_consequences,
                            cause_of, compare, expected_on, found_rows, read_table, throws)

SKIPPED = 77
BY_TOOL = ("run", "script")
Run = collections.namedtuple("Run", "launcher ranks")


def read_run(text):
    launcher, ranks = text.split(":")
    if launcher not in rank_runs.LAUNCHERS:
        raise argparse.ArgumentTypeError(f"no launcher is named {launcher}")
    return Run(launcher, int(ranks))


def identities(findings, left_out):
    """What must be equal in every run."""
    members = ("fingerprint", "id", "severity", "model", "module_path", "subject", "op")
    return sorted((*(finding[member] for member in members), finding["facts"].get("cause", ""),
                   cause_of(finding, findings))
                  for finding in findings if finding["id"] not in left_out)


def check_statuses(run, statuses, must_fail, has_error):
    """The program's own statuses; `ddpscope run` adds 1 where the program itself gives 0."""
    if must_fail:
        is_right = any(status not in (0, 1) for status in statuses)
    else:
        is_right = set(statuses) == {int(has_error and run.launcher in BY_TOOL)}
    if not is_right:
        sys.exit(f"{run.launcher} on {run.ranks} ranks ended with {statuses}")


def without_failure(rows, ranks):
    """What a rank ends on leaves a finding of the first that ended."""
    failures = [row for row in rows if row[0] == FIRST_FAILURE]
    if len(failures) != (ranks > 1) or any(row[1] != "error" for row in failures):
        sys.exit(f"{ranks} ranks and {len(failures)} findings of {FIRST_FAILURE}: {failures}")
    return [row for row in rows if row[0] != FIRST_FAILURE]


def check_table(args, run, report):
    """Compares with the table, and says whether the ranks had to fail."""
    columns, table = read_table(args.expected)
    expected = expected_on(run.ranks, table[args.bug])
    found = found_rows(report["findings"], run.ranks, columns, args.expected.parent, expected)
    if args.parted and run.ranks > 1:
        if problem := beyond_consequences(expected, found):
            sys.exit(f"under {run.launcher} on {run.ranks} ranks: {problem}")
        return True
    is_listed = any(row[0] == FIRST_FAILURE for row in expected)
    if throws(expected) and not is_listed:
        found = without_failure(found, run.ranks)
    compare(f"under {run.launcher} on {run.ranks} ranks", expected, found)
    return is_listed or throws(expected)


def compare_runs(known, run, findings):
    """Compares with the first run, and what is of several ranks alone with the first of those."""
    scopes = {"any ranks": OF_SEVERAL_RANKS}
    if run.ranks > 1:
        scopes["several ranks"] = {FIRST_FAILURE}  # any rank may be the first, anywhere
    for scope, left_out in scopes.items():
        found = identities(findings, left_out | OF_THE_MACHINE)
        first, expected = known.setdefault(scope, (run, found))
        compare(f"between {first} and {run}", expected, found)


def report_of(args, run):
    """Runs the program and gives its report and the statuses of what was started."""
    out = rank_runs.empty_folder(args.out / f"{run.launcher}.{run.ranks}")
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [args.program, "--bug", args.bug] + args.arguments
    start = time.monotonic()
    statuses = rank_runs.ended(rank_runs.LAUNCHERS[run.launcher](args, command, run.ranks, out))
    seconds = time.monotonic() - start
    if run.launcher in BY_TOOL:
        report = json.loads((out / "report.json").read_text())
    else:
        report, code = rank_runs.merged(args.tool, out)
        if code != (report["summary"]["errors"] > 0):
            sys.exit(f"merge ended with {code}")
    count = len(report["findings"])
    print(f"== {run.launcher} on {run.ranks} ranks: {count} findings, {seconds:.1f} s", flush=True)
    if report["world_size"] != run.ranks or report["missing_ranks"]:
        sys.exit(f"{report['world_size']} ranks, without {report['missing_ranks']}")
    return report, statuses


def main():
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "preload", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--expected", type=pathlib.Path)
    parser.add_argument("--bug", required=True)
    parser.add_argument("--parted", action="store_true",
                        help="several ranks part, and how they hang or fail differs by run")
    parser.add_argument("--runs", type=read_run, nargs="+", required=True,
                        metavar="LAUNCHER:RANKS")
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    absent = {run.launcher for run in args.runs
              if run.launcher in rank_runs.OPTIONAL and not shutil.which(run.launcher)}
    runs = [run for run in args.runs if run.launcher not in absent]
    known = {}
    for run in runs:
        report, statuses = report_of(args, run)
        must_fail = args.expected is not None and check_table(args, run, report)
        check_statuses(run, statuses, must_fail, report["summary"]["errors"] > 0)
        if not args.parted or run.ranks == 1:
            compare_runs(known, run, report["findings"])
    for name in sorted(absent):
        print(f"{name} is not installed ({rank_runs.OPTIONAL[name]})")
    if absent:
        print(f"{len(runs)} other runs were equal")
        sys.exit(SKIPPED)
    count = max((len(findings) for _, findings in known.values()), default=0)
    print(f"{len(runs)} runs gave {count} equal findings")


main()
