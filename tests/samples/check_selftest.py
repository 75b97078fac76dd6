#!/usr/bin/env python3
"""Runs `ddpscope selftest` on a sample.

`all`: of the faults that have a place in the sample at least 19 of 20 are caught, and those that
are not are --missed, each with its reason. `levels`: what a level or another setting leaves out is
missed. `short`: a program with too few steps is refused, or some faults stay undecided. `own`:
mistakes that the sample makes itself catch nothing. `ranks`: all faults between ranks are
caught. `kept`: settings that end a run or name files
neither stop the trials nor leave a file behind. What stands after `--` is given to the sample."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

CLEAN, MISSED, USAGE, INCOMPLETE = 0, 1, 2, 4
LEAST_FAULTS = 20
LEAST_SHARE = 19 / 20
LEAST_RANK_FAULTS = 8
LATEST = {"slow-rank": 64, "weight-apart": 1}  # steps; of the others the first has it
LIMIT_S = 220


def environment(**more):
    dropped = ("LD_PRELOAD", "DDPSCOPE", "RANK", "WORLD_SIZE")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def run(args, options, program_arguments=(), cwd=None, **more):
    command = [args.tool, "selftest", "--json", *options, "--", args.program, *program_arguments,
               *args.arguments]
    ran = subprocess.run(command, env=environment(**more), capture_output=True, text=True,
                         timeout=LIMIT_S, check=False, cwd=cwd)
    told = json.loads(ran.stdout) if ran.stdout else {"faults": []}
    if ran.stdout:
        level = options[options.index("--level") + 1] if "--level" in options else "values"
        overhead = {"watch": 0.5, "values": 2, "stacks": 10}[level]
        expect(told["level"] == level and float(told["overhead"]) == overhead, told)
    return ran.returncode, {fault["fault"]: fault for fault in told["faults"]}, ran.stderr


def expect(condition, *told):
    if not condition:
        sys.exit(" ".join(str(one) for one in told))


def only(*names):
    return [word for name in names for word in ("--fault", name)]


def check_caught(fault):
    expect(fault["state"] == "caught", fault)
    expect(fault["finding"]["id"] == fault["check"], "another finding stands for", fault)
    expect(fault["latency_steps"] >= 0, fault)


def all_faults(args):
    code, faults, errors = run(args, [])
    placed = {name: fault for name, fault in faults.items() if fault["state"] != "no place"}
    missed = {name for name, fault in placed.items() if fault["state"] != "caught"}
    for name in sorted(missed):
        print(name, placed[name]["state"], placed[name]["why"])
    expect(len(placed) >= LEAST_FAULTS, "only", len(placed), "faults have a place", errors)
    expect(missed <= set(args.missed), missed - set(args.missed), "should be caught")
    expect(len(placed) - len(missed) >= LEAST_SHARE * len(placed), "too few are caught")
    expect(all(placed[name]["why"] for name in missed), "a miss without a reason")
    expect(code == (MISSED if missed else CLEAN), "exit code", code)
    for name in placed.keys() - missed:
        check_caught(placed[name])
    print(f"{len(placed) - len(missed)} of {len(placed)} caught")


def levels(args):
    of_values, of_watch = "negative-limit", "member-twice"
    for level, codes in (("watch", (MISSED, CLEAN)), ("values", (0, 0)), ("stacks", (0, 0))):
        for name, expected in zip((of_values, of_watch), codes):
            code, faults, errors = run(args, ["--level", level, *only(name)])
            expect(code == expected, level, name, "gives", code, faults, errors)
            if code == CLEAN:
                check_caught(faults[name])
            else:
                expect(faults[name]["why"].startswith("not checked: "), faults)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print("module-shared-twice  # meant so", file=file, flush=True)
        code, faults, _ = run(args, only(of_watch), DDPSCOPE=f"suppressions={file.name}")
        expect(code == MISSED and "(suppressed)" in faults[of_watch]["why"], code, faults)
    code, faults, _ = run(args, only(of_watch), DDPSCOPE="checks=*,-module-shared-twice")
    expect(code == MISSED and "not checked" in faults[of_watch]["why"], "left out", code, faults)


def short(args):
    code, faults, errors = run(args, [], ["--steps", "4"])
    expect(code == INCOMPLETE and not faults, "4 steps give", code)
    expect("ended after 4 steps; faults are planted after 8" in errors, errors)
    code, _, errors = run(args, ["--seconds", "1", "--after", "100000"])
    expect(code == INCOMPLETE and "give it more --seconds" in errors, errors)
    some = only("member-twice", "kept-losses")
    code, faults, _ = run(args, ["--after", "2", *some], ["--steps", "6"])
    expect(code == INCOMPLETE, "6 steps give", code, faults)
    check_caught(faults["member-twice"])
    expect(faults["kept-losses"]["state"] == "undecided", faults)
    expect("24 may be needed" in faults["kept-losses"]["why"], faults)


def own(args):
    code, faults, _ = run(args, only("dropped-result"), ["--bug", "uncalled-layer"])
    expect(code == CLEAN, "its own missing gradients:", code, faults)
    expect(faults["dropped-result"]["finding"]["module_path"] == "trunk.block0.conv", faults)
    code, faults, _ = run(args, only("never-cleared"), ["--bug", "no-zero-grad"])
    expect(code == INCOMPLETE, "nothing is cleared:", code)
    expect(faults["never-cleared"]["state"] == "no place", faults)


def ranks(args):
    code, faults, errors = run(args, ["--nproc", "2"])
    expect(code == CLEAN, "exit code", code, faults, errors)
    expect(len(faults) >= LEAST_RANK_FAULTS, faults)
    for name, fault in faults.items():
        check_caught(fault)
        expect(fault["latency_steps"] <= LATEST.get(name, 0), fault)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print("rank-optimizer-differs  # meant so", file=file, flush=True)
        code, faults, _ = run(args, ["--nproc", "2", *only("rate-apart")],
                              DDPSCOPE=f"suppressions={file.name}")
        expect(code == MISSED and "(suppressed)" in faults["rate-apart"]["why"], code, faults)
    code, _, errors = run(args, ["--nproc", "2", *only("member-twice")])
    expect(code == USAGE and "takes one rank" in errors, code, errors)
    code, _, errors = run(args, only("rate-apart"))
    expect(code == USAGE and "takes several ranks" in errors, code, errors)


def kept(args):
    with tempfile.TemporaryDirectory() as folder:
        code, faults, _ = run(args, only("member-twice"), cwd=folder, TMPDIR=folder,
                              DDPSCOPE="halt_on=error:exit_code=3:report_dir=mine:metrics_file=m")
        expect(code == CLEAN, "halting gives", code, faults)
        left = sorted(os.listdir(folder))
        expect(not left, "left in its folder:", left)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--way", required=True)
    parser.add_argument("--missed", nargs="*", default=[])
    split = sys.argv.index("--")
    args = parser.parse_args(sys.argv[1:split])
    args.arguments = sys.argv[split + 1:]
    ways = {"all": all_faults, "levels": levels, "short": short, "own": own, "kept": kept,
            "ranks": ranks}
    ways[args.way](args)


if __name__ == "__main__":
    main()
