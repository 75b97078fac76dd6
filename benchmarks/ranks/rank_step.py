#!/usr/bin/env python3
"""Measures what ddpscope costs two ranks that average their gradients, and writes the result.

One round runs, in random order, rank_step without ddpscope twice (their difference is the noise:
A/A) and once at level watch, each on as many processes as there are ranks. Differences are taken
within a round, then the median and the quartiles over the rounds.
"""

import argparse
import datetime
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile

BASE = "off"
VARIANTS = [BASE, "off again (A/A)", "watch"]
CALLS_PER_STEP = 25  # of the digits network: one per parameter
# As in hook_overhead.py: else glibc gives heap back and asks for it again in every step.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_TOP_PAD_": "268435456",
          "MALLOC_MMAP_THRESHOLD_": "33554432"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_once(arguments, what, count, variant, scratch):
    """The times of rank 0, and what both ranks computed."""
    setting = f"level=watch:report_dir={scratch}/%p:console=quiet" if variant == "watch" else "0"
    world = {"WORLD_SIZE": str(arguments.ranks), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(free_port()), "DDPSCOPE": setting}
    ranks = [subprocess.Popen([arguments.program, what, str(count)], stdout=subprocess.PIPE,
                              text=True, env={**os.environ, **MALLOC, **world, "RANK": str(rank)})
             for rank in range(arguments.ranks)]
    outputs = [rank.communicate()[0].splitlines() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"rank_step.py: a rank ended with {[rank.returncode for rank in ranks]}")
    words = outputs[0][0].split()[1:]
    times = {key: float(value) for key, value in zip(words[::2], words[1::2])}
    return times, [lines[1] for lines in outputs]


def measure(arguments, what, count):
    rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.rounds):
            sums = set()
            measured = {}
            for variant in random.sample(VARIANTS, len(VARIANTS)):
                measured[variant], found = run_once(arguments, what, count, variant, scratch)
                sums.add(tuple(found))
            if len(sums) != 1:
                sys.exit(f"rank_step.py: ddpscope changed what the ranks compute: {sums}")
            rounds.append(measured)
            print(f"{what}: round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return rounds


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def table(rounds, title, keys):
    lines = ["", f"## {title}", "", "| | " + " | ".join(name for _, name in keys) + " |",
             "|---|" + "---|" * len(keys)]
    for variant in VARIANTS:
        cells = []
        for key, _ in keys:
            if variant == BASE:
                cells.append(f"{statistics.median(r[BASE][key] for r in rounds):.1f} µs")
                continue
            low, middle, high = quartiles([100 * (r[variant][key] / r[BASE][key] - 1)
                                           for r in rounds])
            micros = statistics.median(r[variant][key] - r[BASE][key] for r in rounds)
            cells.append(f"{middle:+.2f} % [{low:+.2f}, {high:+.2f}], {micros:+.2f} µs")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/benchmarks/ranks/rank_step")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", help="the file to write, else benchmarks/results/…-<date>.md")
    arguments = parser.parse_args()
    keys = [("wall_p50", "wall, p50"), ("wall_p99", "wall, p99"),
            ("thread_p50", "training thread's CPU, p50"),
            ("thread_p99", "training thread's CPU, p99")]
    steps = measure(arguments, "steps", arguments.steps)
    calls = measure(arguments, "calls", arguments.calls)
    call = statistics.median(r["watch"]["thread_p50"] - r[BASE]["thread_p50"] for r in calls)
    step = statistics.median(r[BASE]["wall_p50"] for r in steps)
    lines = [f"# What ddpscope costs {arguments.ranks} ranks, {arguments.date}", "",
             f"- {os.cpu_count()} cores; Linux {os.uname().release}; load "
             f"{os.getloadavg()[0]:.1f} at the end",
             f"- Command: `benchmarks/ranks/rank_step.py {' '.join(sys.argv[1:])}`",
             f"- Rounds: {arguments.rounds}; {arguments.steps} steps of the digits network, then "
             f"{arguments.calls} calls of all_reduce of 16 numbers, per process; rank 0 is shown."]
    lines += table(steps, "A step, all hooks", keys)
    lines += table(calls, "One all_reduce and its wait: the call log alone", keys)
    lines += ["", f"The log of {CALLS_PER_STEP} calls takes {CALLS_PER_STEP * call:.1f} µs of the "
              f"training thread, {100 * CALLS_PER_STEP * call / step:.2f} % of the step (bar: "
              "0.5 %)."]
    results = pathlib.Path(__file__).parent.parent / "results"
    out = pathlib.Path(arguments.out or results / f"rank_step-{arguments.date}.md")
    text = "\n".join(lines) + "\n"
    out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
