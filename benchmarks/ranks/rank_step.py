#!/usr/bin/env python3
"""Measures what ddpscope costs two ranks that average their gradients, and writes the result.

One round runs, in random order, rank_step without ddpscope twice (their difference is the noise:
A/A) and once at each level, each on as many processes as there are ranks; then, at level watch,
rank_step whose blocks of steps run in turn without and with the hooks of calls, the same with a
delay in place of hooks and with nothing, and at level values with all hooks. Differences are taken
within a round, then the median and the quartiles over the rounds.
"""

import argparse
import datetime
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile

BASE = "off"
VARIANTS = [BASE, "off again (A/A)", "watch", "values"]
LEVELS = {"gate": "values", "log": "watch", "delay": BASE, "nothing": BASE}  # of blocks in turn
CALLS_PER_STEP = 21  # of the digits network: one per parameter
# As in hook_overhead.py: else glibc gives heap back and asks for it again in every step.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_TOP_PAD_": "268435456",
          "MALLOC_MMAP_THRESHOLD_": "33554432"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_once(arguments, what, count, variant, scratch):
    """What rank 0 printed, and what both ranks computed."""
    setting = "0"
    if not variant.startswith(BASE):
        folder = tempfile.mkdtemp(dir=scratch)
        setting = f"level={variant}:report_dir={folder}:console=quiet"
    world = {"WORLD_SIZE": str(arguments.ranks), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(free_port()), "DDPSCOPE": setting}
    command = [arguments.program, what, str(count)] + ["flat"] * arguments.flat
    ranks = [subprocess.Popen(command, stdout=subprocess.PIPE,
                              text=True, env={**os.environ, **MALLOC, **world, "RANK": str(rank)})
             for rank in range(arguments.ranks)]
    outputs = [rank.communicate()[0].splitlines() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"rank_step.py: a rank ended with {[rank.returncode for rank in ranks]}")
    return outputs[0][:-1], tuple(lines[-1] for lines in outputs)


def times_in(line):
    words = line.split()[1:]
    return {key: float(value) for key, value in zip(words[::2], words[1::2])}


def measure_processes(arguments, scratch):
    """By variant."""
    sums, measured = set(), {}
    for variant in random.sample(VARIANTS, len(VARIANTS)):
        lines, found = run_once(arguments, "steps", arguments.steps, variant, scratch)
        measured[variant] = times_in(lines[0])
        sums.add(found)
    if len(sums) != 1:
        sys.exit(f"rank_step.py: ddpscope changed what the ranks compute: {sums}")
    return measured


def measure_turns(arguments, scratch):
    """By what is there in every second block: the times without and with it."""
    measured = {}
    for what in random.sample(list(LEVELS), len(LEVELS)):
        lines, _ = run_once(arguments, what, arguments.turns, LEVELS[what], scratch)
        measured[what] = [times_in(line) for line in lines[:2]]
    return measured


def measure(arguments, of_round):
    rounds = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.rounds):
            rounds.append(of_round(arguments, scratch))
            print(f"{of_round.__name__}: {number + 1} of {arguments.rounds}", file=sys.stderr)
    return rounds


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def head(title, base, keys):
    return ["", f"## {title}", "", f"| {base} | " + " | ".join(name for _, name in keys) + " |",
            "|---|" + "---|" * len(keys)]


def cell(pairs):
    """Of pairs of times without and with something."""
    low, middle, high = quartiles([100 * (after / before - 1) for before, after in pairs])
    micros = statistics.median(after - before for before, after in pairs)
    return f"{middle:+.2f} % [{low:+.2f}, {high:+.2f}], {micros:+.2f} µs"


def table_of_processes(rounds, keys):
    lines = head("Processes with and without ddpscope", "", keys)
    for variant in VARIANTS:
        if variant == BASE:
            cells = [f"{statistics.median(r[BASE][key] for r in rounds):.1f} µs" for key, _ in keys]
        else:
            cells = [cell([(r[BASE][key], r[variant][key]) for r in rounds]) for key, _ in keys]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return lines


def table_of_turns(rounds, keys):
    lines = head("Blocks of steps of one process, in turn without and with", "", keys)
    for what in LEVELS:
        cells = [cell([(r[what][0][key], r[what][1][key]) for r in rounds]) for key, _ in keys]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    return lines


def measure_log(arguments):
    """What the log takes of the training thread for a call, in µs."""
    with tempfile.TemporaryDirectory() as scratch:
        line = subprocess.run([arguments.log_program, scratch], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
    return float(re.search(r"(\d+) ns of the training thread", line).group(1)) / 1000, line


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/benchmarks/ranks/rank_step")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--log-program", default="build/dev/benchmarks/ranks/call_log")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--turns", type=int, default=800)
    parser.add_argument("--flat", action="store_true", help="average all gradients by one call")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", help="the file to write, else benchmarks/results/…-<date>.md")
    arguments = parser.parse_args()
    keys = [("wall_p50", "wall, p50"), ("wall_p99", "wall, p99"),
            ("thread_p50", "training thread's CPU, p50"),
            ("thread_p99", "training thread's CPU, p99")]
    call, line = measure_log(arguments)
    calls = 1 if arguments.flat else CALLS_PER_STEP
    processes = measure(arguments, measure_processes)
    turns = measure(arguments, measure_turns)
    step = statistics.median(r[BASE]["wall_p50"] for r in processes)
    lines = [f"# What ddpscope costs {arguments.ranks} ranks, {arguments.date}", "",
             f"- {os.cpu_count()} cores; Linux {os.uname().release}; load "
             f"{os.getloadavg()[0]:.1f} at the end",
             f"- Command: `benchmarks/ranks/rank_step.py {' '.join(sys.argv[1:])}`",
             f"- Rounds: {arguments.rounds}, of {arguments.steps} steps of the digits network per "
             f"process, and of {arguments.turns} in blocks, gradients averaged by "
             f"{'one call' if arguments.flat else 'a call each'}; rank 0 is shown. `gate`: all "
             "hooks at level values; `log`: those of calls; `delay`: 2 µs before each call and no "
             "ddpscope; `nothing`: the noise."]
    lines += table_of_processes(processes, keys)
    lines += table_of_turns(turns, keys)
    lines += ["", f"`call_log`, caches emptied before each call: {line}. {calls} calls: "
              f"{calls * call:.1f} µs, {100 * calls * call / step:.2f} % of the "
              "step (bar: 0.5 %)."]
    results = pathlib.Path(__file__).parent.parent / "results"
    out = pathlib.Path(arguments.out or results / f"rank_step-{arguments.date}.md")
    text = "\n".join(lines) + "\n"
    out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
