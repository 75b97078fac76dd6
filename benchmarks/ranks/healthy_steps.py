#!/usr/bin/env python3
"""Trains three programs without a mistake for many steps on several ranks, and writes what a merge
says of them: neither an error nor a warning, or the exit code is 1.

While they train, the lowest rank compares them as well; what it says is part of the report."""

import argparse
import datetime
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

PROGRAMS = {
    "digits (convolutions, batch norm)": ["digits/digits", "--data", "{data}", "--epochs", "100000",
                                          "--steps", "{steps}"],
    "loops (averages in one buffer, accumulation)": ["loops/loops", "--way", "accumulate",
                                                     "--steps", "{steps}"],
    "tagger (sum over a count of all ranks)": ["tagger/tagger", "--way", "summed",
                                               "--steps", "{steps}"],
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def train(arguments, command, out):
    """Each rank's exit code."""
    samples = pathlib.Path(arguments.build) / "samples"
    words = [word.format(steps=arguments.steps, data=samples / "digits" / "data")
             for word in command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": free_port(), "WORLD_SIZE": str(arguments.ranks),
                   "DDPSCOPE": f"report_dir={out}:console=quiet"}
    ranks = [subprocess.Popen([samples / words[0]] + words[1:], stdout=subprocess.DEVNULL,
                              env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)})
             for rank in range(arguments.ranks)]
    return [rank.wait() for rank in ranks]


def judge(arguments, out):
    tool = pathlib.Path(arguments.build) / "bin" / "ddpscope"
    subprocess.run([tool, "merge", out], stdout=subprocess.DEVNULL, check=False)
    report = json.loads((pathlib.Path(out) / "report.json").read_text(encoding="utf-8"))
    steps = min(rank["steps"] for rank in report["ranks"])
    loud = [f'{finding["id"]} in step {finding["step"]}: {finding["what"]}'
            for finding in report["findings"] if finding["severity"] != "note"]
    return steps, loud


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/dev")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", help="the file to write, else benchmarks/results/…-<date>.md")
    arguments = parser.parse_args()
    lines = [f"# Steps without a mistake on {arguments.ranks} ranks, {arguments.date}", "",
             f"- Command: `benchmarks/ranks/healthy_steps.py {' '.join(sys.argv[1:])}`", "",
             "| program | steps | errors and warnings |", "|---|---|---|"]
    is_silent = True
    for name, command in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as out:
            if any(train(arguments, command, out)):
                sys.exit(f"healthy_steps.py: a rank of {name} failed")
            steps, loud = judge(arguments, out)
        is_silent = is_silent and not loud and steps >= arguments.steps
        lines.append(f"| {name} | {steps} | {'; '.join(loud) or 'none'} |")
        print(lines[-1], flush=True)
    results = pathlib.Path(__file__).parent.parent / "results"
    out = pathlib.Path(arguments.out or results / f"healthy_steps-{arguments.date}.md")
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if is_silent else 1


if __name__ == "__main__":
    sys.exit(main())
