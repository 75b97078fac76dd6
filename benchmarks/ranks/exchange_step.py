#!/usr/bin/env python3
"""Measures what the exchange between ranks costs a rank that trains, and writes the result.

Two ranks train without any collective, so that one goes on whatever becomes of the other. One of
them is measured; the other pauses in each step and leaves the cores alone. Each round runs, in
random order, the exchange off twice (their difference is the noise: A/A), on, and on where a rank
is killed or stopped after a quarter of the steps, or where nobody listens at the published port.
The second half of the steps counts. The time from the last step to the end of the process, too.
"""

import argparse
import datetime
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from rank_step import MALLOC, quartiles

OFF = "off"
# What is measured: the rank, the setting, and the signal that the other rank gets.
VARIANTS = {
    OFF: (1, "off", None),
    "off again (A/A)": (1, "off", None),
    "store": (1, "store", None),
    "the server killed": (1, "store", signal.SIGKILL),
    "the server stopped": (1, "store", signal.SIGSTOP),
    "a peer killed": (0, "store", signal.SIGKILL),
    "a peer stopped": (0, "store", signal.SIGSTOP),
    "the port blocked": (1, "store", None),
}
KEYS = {"wall_p50": "step, p50", "wall_p99": "step, p99", "thread_p50": "thread's CPU, p50",
        "thread_p99": "thread's CPU, p99"}


def start(arguments, scratch, rank, what, setting):
    settings = (f"level=watch:report_dir={scratch}:console=quiet:exchange={setting}:"
                f"exchange_every=1:exchange_timeout_ms={arguments.timeout_ms}")
    environment = {**os.environ, **MALLOC, "RANK": str(rank), "WORLD_SIZE": "2",
                   "MASTER_ADDR": "127.0.0.1", "DDPSCOPE_RUN_ID": "bench", "DDPSCOPE": settings}
    return subprocess.Popen([arguments.program, what, str(arguments.steps)], env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def blocked_port(scratch):
    """A port that is taken, and at which nobody listens."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    path = pathlib.Path(scratch, "rank-0.port")
    path.write_text(f"bench\n{taken.getsockname()[1]}\n")
    return taken


def run_once(arguments, variant):
    rank, setting, sign = VARIANTS[variant]
    with tempfile.TemporaryDirectory() as scratch:
        is_blocked = variant == "the port blocked"
        taken = blocked_port(scratch) if is_blocked else None
        other = start(arguments, scratch, 1 - rank, "paused", "off" if is_blocked else setting)
        measured = start(arguments, scratch, rank, "alone", setting)
        try:
            times = {}
            for line in measured.stdout:
                words = line.split()
                if words[0] == "begun" and sign:
                    other.send_signal(sign)
                if words[0] == "alone":
                    times = {key: float(value) for key, value in zip(words[1::2], words[2::2])}
                if words[0] == "sum":
                    end = time.monotonic()
                    result = words[1]
            if measured.wait() != 0 or not times:
                sys.exit(f"exchange_step.py: {variant}: the rank ended with {measured.returncode}")
            times["exit"] = 1000 * (time.monotonic() - end)
        finally:
            other.kill()
            other.communicate()
            if taken:
                taken.close()
    return times, (rank, result)


def measure(arguments):
    rounds = []
    sums = set()
    for number in range(arguments.rounds):
        round_ = {}
        for variant in random.sample(list(VARIANTS), len(VARIANTS)):
            round_[variant], result = run_once(arguments, variant)
            sums.add(result)
        rounds.append(round_)
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    if len(sums) != 2:
        sys.exit(f"exchange_step.py: what the ranks compute has changed: {sums}")
    return rounds


def row(rounds, variant):
    cells = []
    for key in KEYS:
        middle = statistics.median(r[variant][key] for r in rounds)
        low, difference, high = quartiles([100 * (r[variant][key] / r[OFF][key] - 1)
                                           for r in rounds])
        change = "" if variant == OFF else f", {difference:+.2f} % [{low:+.2f}, {high:+.2f}]"
        cells.append(f"{middle:.1f} µs{change}")
    exits = [r[variant]["exit"] for r in rounds]
    cells.append(f"{statistics.median(exits):.0f} ms, {max(exits):.0f} ms")
    return f"| {variant} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/benchmarks/ranks/rank_step")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--timeout-ms", type=int, default=5000)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", help="the file to write, else benchmarks/results/…-<date>.md")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds: at least 2")
    rounds = measure(arguments)
    lines = [f"# What the exchange between ranks costs, {arguments.date}", "",
             f"- {os.cpu_count()} cores; Linux {os.uname().release}; load "
             f"{os.getloadavg()[0]:.1f} at the end",
             f"- Command: `benchmarks/ranks/exchange_step.py {' '.join(sys.argv[1:])}`",
             f"- Rounds: {arguments.rounds}; the second half of {arguments.steps} steps of the "
             "digits network; differences within a round, median [quartiles]; the last column is "
             "from the last step to the end of the process, median and longest.", "",
             "| | " + " | ".join(KEYS.values()) + " | end |", "|---|" + "---|" * (len(KEYS) + 1)]
    lines += [row(rounds, variant) for variant in VARIANTS]
    results = pathlib.Path(__file__).parent.parent / "results"
    out = pathlib.Path(arguments.out or results / f"exchange_step-{arguments.date}.md")
    text = "\n".join(lines) + "\n"
    out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
