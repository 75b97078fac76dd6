#!/usr/bin/env python3
"""Runs hook_overhead within several budgets and writes what each run spent and saw.

One process per model and setting. What it spent is told twice: by the clock of the hooks, and by
the steps themselves: in one run hooks rest in some cycles, and those that are watched are compared
with the rest before them. That needs no second process, whose memory lies elsewhere.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

from hook_overhead import MALLOC, NAMES, describe_build

STEPS = {"digits": 3000, "mlp": 12000, "chars": 2500, "gan": 12000, "resnet": 260}


def run(program, model, settings, cores):
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [program, model, str(STEPS[model])], stdout=subprocess.DEVNULL, check=True,
            env={**os.environ, **MALLOC,
                 "DDPSCOPE": f"{settings}:report_dir={scratch}/run:console=quiet"},
            preexec_fn=lambda: os.sched_setaffinity(0, cores))
        lines = pathlib.Path(scratch, "run", "rank-0.jsonl").read_text().splitlines()
    return json.loads(lines[-1])


def row(model, settings, summary):
    structure = summary["overhead"]["grad-missing"]
    values = summary["overhead"].get("optim-update-size")
    watched = summary["watched"]
    extra = total = "never rests"
    if watched:
        extra = (f"{watched['extra_percent']:+.1f} [{watched['lower_percent']:+.1f}, "
                 f"{watched['upper_percent']:+.1f}], {watched['pairs']} pairs")
        total = f"{watched['extra_percent'] * watched['share']:+.2f}"
    cells = [NAMES[model], f"`{settings}`", f"{summary['overhead_percent_first']:.2f}",
             f"{summary['overhead_percent']:.2f}", extra, total,
             f"{structure['coverage']:.3f} / {structure['latency_steps']}"]
    is_read = values is not None and "level=watch" not in settings
    cells.append(f"{values['coverage']:.3f} / {values['latency_steps']}" if is_read else "")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/benchmarks/hook_overhead")
    parser.add_argument("--models", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--settings", nargs="*",
                        default=["level=watch", "level=values:overhead=0.5",
                                 "level=values:overhead=1", "level=values",
                                 "level=values:overhead=5", "level=stacks"])
    parser.add_argument("--cores", default="0,1", help="cores to pin to")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", help="the file to write, else benchmarks/results/budget-<date>.md")
    arguments = parser.parse_args()
    cores = {int(core) for core in arguments.cores.split(",")}
    steps = ", ".join(f"{model} {STEPS[model]}" for model in arguments.models)
    lines = [f"# What hooks spend within a budget, {arguments.date}", "",
             *describe_build(arguments.program),
             f"- One process per row, pinned to cores {arguments.cores}; steps: {steps}. "
             "The first 64 cycles run in full and are not part of what follows.",
             "- Per cent of step time. `extra`: by how much a watched cycle takes longer than the "
             "rest before it, median [quartiles]; times the share of watched cycles: `total`.",
             "- `seen`: share of cycles / steps within which what begins is seen.", "",
             "| model | settings | first 64, hooks' clock | then, hooks' clock | extra | total | "
             "structure seen | values seen |", "|---|---|---|---|---|---|---|---|"]
    for model in arguments.models:
        for settings in arguments.settings:
            lines.append(row(model, settings, run(arguments.program, model, settings, cores)))
            print(lines[-1], flush=True)
    results = pathlib.Path(__file__).parent / "results"
    out = pathlib.Path(arguments.out or results / f"budget-{arguments.date}.md")
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
