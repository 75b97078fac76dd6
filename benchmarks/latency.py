#!/usr/bin/env python3
"""Plants a mistake while hooks rest, and compares when it is found with what the summary says.

From a turn of its loop on hook_overhead does not clear gradients any more. The check
optim-stale-gradient asks for three cycles of it; the summary says within how many steps what begins
is seen. A turn of a loop with two optimizers has two steps. One process per row.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import tempfile

from budget import STEPS
from hook_overhead import MALLOC, NAMES, describe_build

CHECK = "optim-stale-gradient"
ASKED = 3  # cycles


def run(program, model, settings, begin):
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [program, model, str(STEPS[model]), "stale", str(begin)], stdout=subprocess.DEVNULL,
            check=True,
            env={**os.environ, **MALLOC,
                 "DDPSCOPE": f"{settings}:report_dir={scratch}/run:console=quiet"})
        lines = pathlib.Path(scratch, "run", "rank-0.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def judge(records, turns, begin):
    """What a run of so many turns tells of the mistake that begins in turn `begin`, from 1. All
    that it returns counts steps, as findings and the summary do."""
    found = [record["first_step"] for record in records if record["record"] == "finding" and
             record["id"] == CHECK and record["severity"] != "note"]
    summary = records[-1]
    steps_per_turn = round(summary["steps"] / turns)
    begins = (begin - 1) * steps_per_turn + 1
    after = min(found) - begins + 1 if found else None
    allowed = summary["overhead"][CHECK]["latency_steps"] + ASKED * steps_per_turn
    return begins, after, after is not None and 0 < after <= allowed


def row(model, settings, records, begin):
    begins, after, holds = judge(records, STEPS[model], begin)
    stated = records[-1]["overhead"][CHECK]
    cells = [NAMES[model], f"`{settings}`", str(begins), f"{stated['coverage']:.3f}",
             str(stated["latency_steps"]), "not found" if after is None else str(after),
             "yes" if holds else "NO"]
    return "| " + " | ".join(cells) + " |", holds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/dev/benchmarks/hook_overhead")
    parser.add_argument("--models", nargs="*", default=list(STEPS), choices=list(STEPS))
    parser.add_argument("--budgets", nargs="*", default=["0.5", "1", "2", "5"])
    parser.add_argument("--begins", nargs="*", type=float, default=[0.42, 0.55],
                        help="parts of the run")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out",
                        help="the file to write, else benchmarks/results/latency-<date>.md")
    arguments = parser.parse_args()
    lines = [f"# When what begins late is found, {arguments.date}", "",
             *describe_build(arguments.program),
             "- Gradients are not cleared from step `begins` on; of the GAN those of the generator "
             "alone, and each turn of its loop has two steps. `stated`: within how many steps the "
             f"summary says that it is seen; the check asks for {ASKED} cycles of it. `found`: "
             "steps from the first one of the turn with the mistake to the one in which it was "
             "told.", "",
             "| model | settings | begins | coverage | stated | found | holds |",
             "|---|---|---|---|---|---|---|"]
    all_hold = True
    for model in arguments.models:
        for budget in arguments.budgets:
            for part in arguments.begins:
                settings = f"overhead={budget}"
                begin = int(STEPS[model] * part)
                records = run(arguments.program, model, settings, begin)
                text, holds = row(model, settings, records, begin)
                all_hold &= holds
                lines.append(text)
                print(text, flush=True)
    results = pathlib.Path(__file__).parent / "results"
    out = pathlib.Path(arguments.out or results / f"latency-{arguments.date}.md")
    out.write_text("\n".join(lines) + "\n")
    return 0 if all_hold else 1


if __name__ == "__main__":
    raise SystemExit(main())
