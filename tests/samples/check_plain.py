#!/usr/bin/env python3
"""Compares a sample with the same program built without ddpscope: it must know nothing of ddpscope
and train the same numbers. What stands after `--` is given to both."""
import argparse
import os
import pathlib
import subprocess
import sys


def printed(program, arguments):
    env = {**os.environ, "DDPSCOPE": "0"}
    run = subprocess.run([program] + arguments, stdout=subprocess.PIPE, env=env, timeout=100)
    if run.returncode or not run.stdout:
        sys.exit(f"{program} ended with {run.returncode} and printed {len(run.stdout)} bytes")
    return run.stdout


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "plain"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    if b"libddpscope" not in args.program.read_bytes():
        sys.exit("the comparison sees nothing: the sample does not name libddpscope either")
    if b"libddpscope" in args.plain.read_bytes():
        sys.exit("the plain program names libddpscope")
    if printed(args.plain, args.arguments) != printed(args.program, args.arguments):
        sys.exit("the two programs print different numbers")


main()
