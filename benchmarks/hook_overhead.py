#!/usr/bin/env python3
"""Runs hook_overhead in pairs of processes, with and without ddpscope, and writes the result.

One round runs, in random order, two processes with DDPSCOPE=0 (their difference is the noise: A/A)
and one per level. Two levels are without ddpscope: `anomaly` is LibTorch's own anomaly mode, and
with `thread` the program has a second thread that sleeps: glibc's malloc takes locks from then on,
as it does in each process with a data loader, a pool of threads or the worker of ddpscope.
Differences are taken within a round, then the median and the quartiles over the rounds.
"""

import argparse
import datetime
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

BASE = "off"
NOISE = "off again (A/A)"
ANOMALY = "anomaly"
THREAD = "thread"
ANOMALY_STEPS = 8  # it is that slow
BARS = {("digits", "watch"): 0.5, ("mlp", "watch"): 2.0,
        ("digits", "values"): 2.0, ("chars", "values"): 2.0,
        ("digits", "stacks"): 10.0, ("chars", "stacks"): 10.0}
# Short processes, as the steps of one process vary less than the medians of several: where the
# heap lies moves them by up to 4 %. Rounds average that.
STEPS = {"digits": 320, "mlp": 1600, "chars": 320, "gan": 1600, "resnet": 260}
NAMES = {"digits": "digits network, batch 32", "mlp": "MLP 10 x 128, batch 64",
         "chars": "character transformer, batch 16", "gan": "GAN of two MLPs 64, batch 64",
         "resnet": "network of ResNet-18's size, 32 x 32, batch 4"}
# Keeps glibc from giving heap back and asking for it again in every step. Else one block of 300
# bytes at the start of a process changes the step of the digits network by 15 % (page faults).
MALLOC = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_TOP_PAD_": "268435456",
          "MALLOC_MMAP_THRESHOLD_": "33554432"}
CLOCKS = [("thread_median", "thread CPU, median"), ("thread_mean", "thread CPU, mean"),
          ("wall_median", "wall, median"), ("process_mean", "process CPU, mean")]


def run_once(program, model, variant, cores, scratch):
    setting = "0" if variant in (BASE, NOISE, ANOMALY, THREAD) else (
        f"level={variant}:report_dir={scratch}/%p:console=quiet")
    words = [str(ANOMALY_STEPS if variant == ANOMALY else STEPS[model])]
    if variant in (ANOMALY, THREAD):
        words.append(variant)
    result = subprocess.run(
        [program, model, *words], stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, **MALLOC, "DDPSCOPE": setting},
        preexec_fn=lambda: os.sched_setaffinity(0, cores))
    times = {}
    for line in result.stdout.splitlines():
        name, *pairs = line.split()
        if len(pairs) == 1:
            times[name] = pairs[0]
        else:
            times[name] = {key: float(value) for key, value in zip(pairs[::2], pairs[1::2])}
    return times


def measure(program, model, cores, levels, rounds):
    """The times of all processes, one dictionary from variant to times per round."""
    measured = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(rounds):
            variants = [BASE, NOISE, *levels]
            random.shuffle(variants)
            measured.append(
                {variant: run_once(program, model, variant, cores, scratch)
                 for variant in variants})
            sums = {times["sum"] for variant, times in measured[-1].items() if variant != ANOMALY}
            if len(sums) != 1:
                sys.exit(f"hook_overhead.py: ddpscope changed what {model} computes: {sums}")
            print(f"{model} on cores {sorted(cores)}: round {number + 1} of {rounds}",
                  file=sys.stderr)
    return measured


def base_of(times, variant, phase, clock):
    """Of both processes without ddpscope, where the variant is none of them."""
    names = [BASE] if variant == NOISE else [BASE, NOISE]
    return statistics.mean(times[name][phase][clock] for name in names)


def difference(measured, variant, phase, clock):
    """Median and quartiles in percent, and the median in microseconds."""
    pairs = [(r[variant][phase][clock], base_of(r, variant, phase, clock)) for r in measured]
    percent = [100 * (on / off - 1) for on, off in pairs]
    low, middle, high = statistics.quantiles(percent, n=4)
    return low, middle, high, statistics.median(on - off for on, off in pairs)


def table(measured, model, levels):
    lines = []
    for phase, title in (("steady", "after step 96"), ("first", "first 64 steps")):
        base = {clock: statistics.median(r[BASE][phase][clock] for r in measured)
                for clock, _ in CLOCKS}
        lines += ["", f"{NAMES[model]}, {title}: cost against DDPSCOPE=0, median [quartiles]", "",
                  "| | " + " | ".join(title for _, title in CLOCKS) + " | bar |",
                  "|---|" + "---|" * (len(CLOCKS) + 1),
                  "| off, per step | " +
                  " | ".join(f"{base[clock]:.0f} µs" for clock, _ in CLOCKS) + " | |"]
        for variant in [NOISE, *(level for level in levels if level != ANOMALY)]:
            cells = []
            for clock, _ in CLOCKS:
                low, middle, high, micros = difference(measured, variant, phase, clock)
                cells.append(f"{middle:+.2f} % [{low:+.2f}, {high:+.2f}], {micros:+.1f} µs")
            bar = BARS.get((model, variant)) if phase == "steady" else None
            text = "" if bar is None else f"{bar} %"
            lines.append(f"| {variant} | " + " | ".join(cells) + f" | {text} |")
        if phase == "steady" and ANOMALY in levels:
            lines += ["", anomaly_line(measured)]
    return lines


def anomaly_line(measured):
    times = statistics.median(r[ANOMALY]["all"]["wall_median"] for r in measured)
    factors = [r[ANOMALY]["all"]["wall_median"] / r[BASE]["steady"]["wall_median"]
               for r in measured]
    low, middle, high = statistics.quantiles(factors, n=4)
    return (f"LibTorch's anomaly mode, without its search for NaN, {ANOMALY_STEPS} steps per "
            f"process: {times / 1000:.0f} ms per step, {middle:.0f} [{low:.0f}, {high:.0f}] times "
            "as long as without.")


def first_match(pattern, file):
    found = re.search(pattern, pathlib.Path(file).read_text(), re.MULTILINE)
    return found.group(1) if found else "unknown"


def describe_build(program):
    build = pathlib.Path(program).resolve().parents[1]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, cwd=pathlib.Path(__file__).parent).stdout.strip()
    torch = first_match(r"libtorch-([0-9.]+)", build / "CMakeCache.txt")
    compiler = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True)
    command = " ".join(["benchmarks/" + pathlib.Path(sys.argv[0]).name, *sys.argv[1:]])
    return [f"- CPU: {first_match(r'^model name.*: (.*)$', '/proc/cpuinfo')}, "
            f"{os.cpu_count()} cores; Linux {os.uname().release}; load {os.getloadavg()[0]:.1f} "
            "at the start",
            f"- ddpscope {commit}, LibTorch {torch}, g++ {compiler.stdout.strip()}",
            f"- Command: `{command}`"]


def header(arguments):
    return [f"# What the hooks cost, {arguments.date}", "", *describe_build(arguments.program),
            f"- Rounds: {arguments.rounds}; steps per process: " +
            ", ".join(f"{model} {STEPS[model]}" for model in arguments.models),
            "- Per process one median or mean over its steps; differences within a round; then "
            "median and quartiles over the rounds. `process CPU` counts the worker thread, "
            "`thread CPU` does not."]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/benchmarks/hook_overhead")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--levels", nargs="*", default=["watch", "values"])
    parser.add_argument("--models", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--cores", nargs="*", default=["0", "0,1"],
                        help="sets of cores to pin to, such as 0 or 0,1")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", help="the file to write, else benchmarks/results/…-<date>.md")
    arguments = parser.parse_args()
    lines = header(arguments)
    for cores in arguments.cores:
        pinned = {int(core) for core in cores.split(",")}
        lines += ["", f"## All threads pinned to cores {cores}"]
        for model in arguments.models:
            measured = measure(arguments.program, model, pinned, arguments.levels, arguments.rounds)
            lines += table(measured, model, arguments.levels)
    results = pathlib.Path(__file__).parent / "results"
    out = pathlib.Path(arguments.out or results / f"hook_overhead-{arguments.date}.md")
    text = "\n".join(lines) + "\n"
    out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
