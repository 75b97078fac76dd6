#!/usr/bin/env python3
"""Ends ranks of a sample in several ways and compares what a merge says of it with what happened,
and the exit statuses with those of the program alone. What stands after `--` is given to it."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys

import rank_runs


def failure_in(report):
    found = [f for f in report["findings"] if f["id"] == "rank-first-failure"]
    if len(found) != 1:
        sys.exit(f"{len(found)} findings of rank-first-failure")
    return found[0]


def expect(finding, **expected):
    facts = finding["facts"]
    for key, value in expected.items():
        has = finding[key] if key in finding else facts.get(key)
        if has != value:
            sys.exit(f"{key} is {has!r}, not {value!r}, in {finding}")


def end_all(processes):
    for process in processes:
        process.kill()
        process.wait()


def killed_under_run(args):
    command = [args.tool, "run", "--nproc", "2", "--out", args.out, "--", args.program]
    run = subprocess.Popen(command + args.arguments, env=rank_runs.base_environment())
    rank_runs.wait_for_steps(args.out, 2)
    os.kill(rank_runs.pid_of(args.out, 0), signal.SIGKILL)
    if run.wait(timeout=100) != 128 + signal.SIGKILL:
        sys.exit(f"ddpscope run ended with {run.returncode}")
    report, code = rank_runs.merged(args.tool, args.out)
    expect(failure_in(report), first_rank=0, reason_kind="killed", signal="SIGKILL",
           severity="error", evidence_status="established")
    if code != 1:
        sys.exit(f"merge ended with {code}")


def killed(args):
    ranks = rank_runs.start_ranks([args.program] + args.arguments, 2,
                                  rank_runs.watched(args.preload, args.out))
    rank_runs.wait_for_steps(args.out, 2)
    ranks[0].kill()
    rank_runs.ended(ranks)
    report, _ = rank_runs.merged(args.tool, args.out)
    expect(failure_in(report), first_rank=0, reason_kind="killed", severity="error",
           evidence_status="supported")


def told_to_stop(args):
    """All ranks get SIGTERM: a note, and the status of the signal."""
    ranks = rank_runs.start_ranks([args.program] + args.arguments, 2,
                                  rank_runs.watched(args.preload, args.out))
    rank_runs.wait_for_steps(args.out, 2)
    for rank in ranks:
        rank.terminate()
    if rank_runs.ended(ranks) != [-signal.SIGTERM] * 2:
        sys.exit("SIGTERM did not end the ranks")
    report, code = rank_runs.merged(args.tool, args.out)
    expect(failure_in(report), severity="note", cause="launcher_or_session", signal="SIGTERM")
    if code != 0:
        sys.exit(f"merge ended with {code}")


def threw(args):
    """An exception on rank 1 at step 2: the same status as without ddpscope, and its text."""
    command = [args.program] + args.arguments + ["--bug", "reader-throws"]
    error_file = args.out.parent / (args.out.name + ".error.json")
    error_file.unlink(missing_ok=True)
    environment = {**rank_runs.watched(args.preload, args.out),
                   "TORCHELASTIC_ERROR_FILE": str(error_file)}
    ranks = rank_runs.start_ranks(command, 2, environment)
    ranks[1].wait(timeout=100)
    if ranks[1].returncode != -signal.SIGABRT:
        sys.exit(f"rank 1 ended with {ranks[1].returncode}")
    ranks[0].wait(timeout=100)
    report, _ = rank_runs.merged(args.tool, args.out)
    text = 'std::runtime_error "image 33 is cut off"'
    expect(failure_in(report), first_rank=1, reason_kind="exception", exception=text, step=2)
    if "std::runtime_error: image 33 is cut off" not in error_file.read_text():
        sys.exit("the launcher's error file lacks the exception")
    plain = rank_runs.start_ranks(command, 2, {})
    plain[1].wait(timeout=100)
    end_all(plain)
    if plain[1].returncode != ranks[1].returncode:
        sys.exit("the status differs from that of the program alone")


def main():
    ways = {"killed-under-run": killed_under_run, "killed": killed, "told-to-stop": told_to_stop,
            "threw": threw}
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "preload", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--way", choices=ways, required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    rank_runs.empty_folder(args.out)
    ways[args.way](args)


main()
