#!/usr/bin/env python3
"""Runs a program that knows nothing of ddpscope under another launcher, merges, and compares the
findings with its expected.txt. What stands after `--` is given to the program."""
import argparse
import pathlib
import shlex
import shutil
import subprocess
import sys

import rank_runs

SKIPPED = 77


def expected_rows(file, bug):
    rows = [line.split() for line in file.read_text().splitlines() if not line.startswith("#")]
    return sorted((row[1], row[2], "" if row[3] == "-" else row[3]) for row in rows
                  if row and row[0] == bug)


def run_preloaded(args, command):
    ranks = rank_runs.start_ranks(command, args.ranks, rank_runs.watched(args.preload, args.out))
    if any(rank.wait(timeout=100) for rank in ranks):
        sys.exit("a rank failed")


def run_script(args, command):
    """`ddpscope run` of a script that starts the program."""
    script = args.out.parent / (args.out.name + ".sh")
    script.write_text("ls / > /dev/null\n" + shlex.join(map(str, command)) + "\nexit $?\n")
    launch = [args.tool, "run", "--nproc", str(args.ranks), "--out", args.out, "--", "bash", script]
    subprocess.run(launch, env=rank_runs.base_environment(), timeout=100)


def run_mpi(args, command):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        print("mpirun is not installed (Debian: openmpi-bin)")
        sys.exit(SKIPPED)
    program = ("export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE; exec " +
               shlex.join(map(str, command)))
    env = {**rank_runs.base_environment(), **rank_runs.watched(args.preload, args.out)}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launch = [mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(args.ranks)]
    if subprocess.run(launch + ["bash", "-c", program], env=env, timeout=100).returncode:
        sys.exit("mpirun failed")


def main():
    launchers = {"preload": run_preloaded, "script": run_script, "mpirun": run_mpi}
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "preload", "expected", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--launcher", choices=launchers, required=True)
    parser.add_argument("--bug", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    rank_runs.empty_folder(args.out)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    launchers[args.launcher](args, [args.program, "--bug", args.bug] + args.arguments)
    report, code = rank_runs.merged(args.tool, args.out)
    found = sorted((f["id"], f["severity"], f["module_path"]) for f in report["findings"]
                   if f["severity"] != "note")
    expected = expected_rows(args.expected, args.bug)
    print("expected", expected, "found", found, sep="\n")
    if found != expected or report["world_size"] != args.ranks or report["missing_ranks"]:
        sys.exit("the findings or the ranks differ")
    if any(f["ranks"] != list(range(args.ranks)) for f in report["findings"]):
        sys.exit("not every rank has the finding")
    if code != (1 if expected else 0):
        sys.exit(f"merge ended with {code}")


main()
