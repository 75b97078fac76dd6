#!/usr/bin/env python3
"""Runs a sample on several ranks and reads what one of them says of all while they train.

`found`: the findings of --ids are said while every rank still runs, each in one form of words, and
a merge says the same of each, once, beside the others of expected.txt and what follows from them.
`silent`: nothing is said, in a long run and of each prefix of a short one. `stopped`, `killed`: one
rank stands still for a while or is gone; nothing wrong is said, and the others end in time. `two`:
two runs of one folder, of which one has a mistake, do not mix. What stands after `--` is given to
the sample.

With `--over store` the rings go over a store of rank 0. With `--over folders` each rank has a
folder of its own, and the program gives its store."""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import rank_runs
from findings_table import beyond_consequences, cause_of, expected_on, found_rows, read_table

SETTLE_S = 0.5
JUDGED_STEPS = 8  # past those in which the mistakes are planted
LIMIT_S = 90
LISTEN_S = 4
STAND_S = 8
END_S = 20
SETTINGS = {"files": "report_dir={}", "store": "exchange=store:report_dir={}",
            "folders": "report_dir={}/%r"}
LINE = re.compile(r"^ranks? .*?: (error|warning): (.*) \[([a-z-]+)\]$", re.MULTILINE)
ENDLESS = ["--steps", "100000000"]


class Run:
    """Ranks that train in one folder, and what they print."""

    def __init__(self, args, name, bug, steps=ENDLESS, out=None):
        self.out = out or rank_runs.empty_folder(args.out / name)
        self.log = args.out / (name + ".log")
        self.count = args.ranks
        args.out.mkdir(parents=True, exist_ok=True)
        with open(self.log, "w", encoding="utf-8") as log:
            self.ranks = rank_runs.start_ranks(
                [args.program, "--bug", bug] + steps + args.arguments, args.ranks,
                {"DDPSCOPE": SETTINGS[args.over].format(self.out)}, stdout=log, stderr=log)
        self.folders = ([self.out / str(rank) for rank in range(args.ranks)]
                        if args.over == "folders" else [self.out])

    def said(self):
        return LINE.findall(self.log.read_text(encoding="utf-8", errors="replace"))

    def ids(self):
        return [one[2] for one in self.said()]

    def all_run(self):
        return all(rank.poll() is None for rank in self.ranks)

    def tells_of(self, place):
        return any(line.startswith(place) for line in self.log.read_text(
            encoding="utf-8", errors="replace").splitlines())

    def wait_for(self, ids, place=""):
        end = time.monotonic() + LIMIT_S
        while not (set(ids) <= set(self.ids()) and self.tells_of(place)):
            if time.monotonic() > end or not self.all_run():
                self.end()
                sys.exit(f"{self.ids()} was said while the ranks ran, not {ids}")
            time.sleep(0.1)
        if not self.all_run():
            sys.exit("a rank had ended before")

    def wait_for_judged(self):
        """Where no rank waits for another, a busy machine may leave what one records lying."""
        for rank in range(self.count):
            folder = self.folders[rank % len(self.folders)]
            rank_runs.wait_for_steps_of(folder, [rank], JUDGED_STEPS)

    def end(self, sign=signal.SIGTERM):
        for rank in self.ranks:
            rank.send_signal(sign)
        begin = time.monotonic()
        rank_runs.ended(self.ranks)
        if time.monotonic() - begin > END_S:
            sys.exit(f"the ranks took {time.monotonic() - begin:.1f} s to end")

    def expect_silence(self, but=()):
        loud = [one for one in self.said() if one[2] not in but]
        if loud:
            sys.exit(f"said while the ranks ran: {loud}")


def without_counts(text):
    """How many steps a rank has seen by then is no part of the sentence."""
    return re.sub(r"in \d+ steps", "in some steps", text)


def found(args):
    run = Run(args, "found", args.bug)
    run.wait_for(args.ids, args.place)
    run.wait_for_judged()  # what each rank finds by itself, the others find when they come to it
    time.sleep(SETTLE_S)
    said = run.said()
    kept = {record["id"] for record in rank_runs.records_of(run.folders[0], 0)
            if record["record"] == "finding"}
    run.end()
    if not set(args.ids) <= kept:
        sys.exit(f"the file of rank 0 has {kept}")
    report, _ = rank_runs.merged(args.tool, *run.folders)
    for identity in args.ids:
        live = {without_counts(what) for _, what, name in said if name == identity}
        merged, following = [], set()
        for one in report["findings"]:
            if one["id"] != identity or one["severity"] == "note":
                continue
            if cause_of(one, report["findings"]) == identity:
                following.add(without_counts(one["what"]))
            else:
                merged.append(one["what"])
        if len(merged) != 1 or live - following != {without_counts(merged[0])} - following:
            sys.exit(f"{identity}: {live} was said live, {merged} at the merge")
    columns, table = read_table(args.expected)
    expected = expected_on(args.ranks, table[args.bug])
    ids = {row[0] for row in expected}
    told = [f for f in report["findings"] if f["caused_by"] is None or f["id"] in ids]
    rows = found_rows(told, args.ranks, columns, args.expected.parent, expected)
    # The ranks were ended in the middle of a step.
    if problem := beyond_consequences(expected, rows):
        sys.exit(problem)


def silent(args):
    run = Run(args, "silent", "none")
    time.sleep(LISTEN_S)
    if not run.all_run():
        sys.exit("a rank has ended")
    run.end()
    run.expect_silence()
    short = Run(args, "short", "none", steps=["--steps", "40"])
    if any(rank_runs.ended(short.ranks)):
        sys.exit("a rank failed")
    short.expect_silence()
    if args.over != "folders":
        subprocess.run([args.prefix_judge, short.out], check=True)


def stopped(args):
    run = Run(args, "stopped", "none")
    rank_runs.wait_for_steps(run.out, args.ranks)
    time.sleep(3)
    run.ranks[1].send_signal(signal.SIGSTOP)
    time.sleep(STAND_S)
    run.ranks[1].send_signal(signal.SIGCONT)
    time.sleep(STAND_S)
    if not run.all_run():
        sys.exit("a rank has ended")
    run.end()
    run.expect_silence()


def killed(args):
    """The other ranks meet it in LibTorch, and end by themselves or are told to."""
    run = Run(args, "killed", "none")
    rank_runs.wait_for_steps(run.out, args.ranks)
    time.sleep(3)
    os.kill(run.ranks[1].pid, signal.SIGKILL)
    time.sleep(STAND_S)
    run.end()
    run.expect_silence(but=("module-operator-failed",))


def two(args):
    wrong = Run(args, "two", args.bug)
    rank_runs.wait_for_steps(wrong.out, args.ranks)
    right = Run(args, "other", "none", out=wrong.out)
    wrong.wait_for(args.ids)
    time.sleep(LISTEN_S)
    for run in (wrong, right):
        if not run.all_run():
            sys.exit("a rank has ended")
        run.end()
    right.expect_silence()
    if sorted(wrong.ids()) != sorted(set(wrong.ids())):
        sys.exit(f"said twice: {wrong.ids()}")


def main():
    parser = argparse.ArgumentParser()
    ways = {"found": found, "silent": silent, "stopped": stopped, "killed": killed, "two": two}
    parser.add_argument("--check", choices=ways, required=True)
    for name in ("tool", "program", "prefix-judge", "expected", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--bug", default="none")
    parser.add_argument("--ids", nargs="*", default=[])
    parser.add_argument("--place", default="", help="how a line begins that is said")
    parser.add_argument("--over", choices=SETTINGS, default="files")
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    ways[args.check](args)


main()
