#!/usr/bin/env python3
"""Runs the sample `features`: the features of a middle layer must tell digits apart better than the
pixels, and about as well as the network. A saved network must give the same numbers."""
import argparse
import pathlib
import re
import subprocess
import sys


def printed(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=100, check=True)
    return run.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    saved = args.out / "digits.pt"
    saved.unlink(missing_ok=True)
    command = [args.program, "--model", str(saved)] + args.arguments
    text = printed(command)
    pixels, features, network = map(float, re.findall(r"([\d.]+) % right$", text, re.MULTILINE))
    if not (pixels + 5 < features and features > 90 and network > 95):
        sys.exit(f"these accuracies cannot be:\n{text}")
    again = printed(command)
    if again != text:
        sys.exit(f"the saved network is another one:\n{text}{again}")


main()
