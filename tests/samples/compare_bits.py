#!/usr/bin/env python3
"""Trains a sample with and without ddpscope and compares every byte of the outcome. What stands
after `--` is given to the sample."""
import argparse
import pathlib
import sys

import rank_runs


def train(args, name, extra, environment):
    """The dumps of all ranks, one after the other."""
    command = [args.program, "--dump", args.out / name] + args.arguments + extra
    if any(rank_runs.ended(rank_runs.start_ranks(command, args.ranks, environment))):
        sys.exit(f"{name}: a rank failed")
    return b"".join((args.out / f"{name}.{rank}").read_bytes() for rank in range(args.ranks))


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "preload", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--levels", type=lambda text: text.split(","), required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    rank_runs.empty_folder(args.out).mkdir(parents=True)

    def settings(name, level):
        return {"DDPSCOPE": f"level={level}:report_dir={args.out / ('report-' + name)}"}

    plain = train(args, "plain", ["--no-diagnostics"], {"DDPSCOPE": "0"})
    if len(plain) < 10000 * args.ranks:
        sys.exit("the dump holds too little to compare")
    preload = {"LD_PRELOAD": str(args.preload)}
    others = {
        "other-seed": train(args, "other-seed", ["--no-diagnostics", "--seed", "2"],
                            {"DDPSCOPE": "0"}),
        "again": train(args, "again", ["--no-diagnostics"], {"DDPSCOPE": "0"}),
        "off": train(args, "off", [], {"DDPSCOPE": "0"}),
        "preloaded": train(args, "preloaded", [],
                           {**settings("preloaded", "values"), **preload}),
        **{level: train(args, level, [], settings(level, level)) for level in args.levels},
    }
    if others.pop("other-seed") == plain:
        sys.exit("two seeds give equal dumps: the comparison sees nothing")
    different = [name for name, dump in others.items() if dump != plain]
    for name in (*args.levels, "preloaded"):
        if not any((args.out / f"report-{name}").glob("rank-*.jsonl")):
            sys.exit(f"{name}: ddpscope was not active")
    if different:
        sys.exit("training differs with ddpscope: " + ", ".join(different))
    print(f"{len(plain)} bytes are equal in {len(others) + 1} runs")


main()
