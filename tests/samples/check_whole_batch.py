#!/usr/bin/env python3
"""Runs the sample `whole_batch` in one process and, under `ddpscope run`, on two ranks: with the
setting `sync_batch_norm` both must train the same network, to rounding, and without it another."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys


def run(command, settings=""):
    environment = {**os.environ, "DDPSCOPE": settings}
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment, timeout=100)
    print(done.stdout)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("tool", "program", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    one = args.out / "one.pt"
    run([args.program, "--dump", one])

    def on_ranks(name, settings):
        output = run([args.tool, "run", "--nproc", "2", "--out", args.out / name, "--",
                      args.program, "--model", one], settings)
        return output, float(re.search(r"largest difference to \S+: ([\d.e+-]+)", output)[1])

    output, synchronised = on_ranks("synchronised", "sync_batch_norm=1")
    if "sync_batch_norm: 2 of 2 layers run over 2 ranks" not in output:
        sys.exit("it was not told that two layers run over two ranks")
    if "norm-local-batch-stats" in output:
        sys.exit("layers that run over all ranks were told to run over one")
    if not synchronised < 1e-5:
        sys.exit("with the setting another network is trained than by one process")
    output, local = on_ranks("local", "")
    if not local > 1e-2:
        sys.exit("without the setting the same network is trained: the sample shows nothing")
    output, excluded = on_ranks("excluded", "sync_batch_norm=1:sync_batch_norm_exclude=*1,norm2")
    if "0 of 2 layers" not in output or "excluded: norm1, norm2" not in output:
        sys.exit("it was not told that both layers are excluded")
    if excluded != local:
        sys.exit("layers that are excluded do not train what they train without the setting")


main()
