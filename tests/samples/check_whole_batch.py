#!/usr/bin/env python3
"""Runs the sample `whole_batch` in one process and, under `ddpscope run`, on two ranks: with the
setting `sync_batch_norm` both must train the same network, to rounding, and without it another, as
where two ranks leave out different layers."""
import argparse
import os
import pathlib
import re
import shutil
import socket
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


def run_apart(args, one):
    """Two ranks whose lists of layers differ: what they print."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    ranks = []
    for rank, excluded in enumerate(("", ":sync_batch_norm_exclude=norm2")):
        settings = f"sync_batch_norm=1:report_dir={args.out / 'apart'}{excluded}"
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port,
                       "DDPSCOPE_RUN_ID": port, "DDPSCOPE": settings,
                       "LD_PRELOAD": str(args.preload)}
        ranks.append(subprocess.Popen([args.program, "--model", one], text=True, env=environment,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    outputs = [rank.communicate(timeout=100)[0] for rank in ranks]
    print(*outputs)
    if any(rank.returncode for rank in ranks):
        sys.exit("a rank failed because lists of layers differ")
    if not all("sync_batch_norm is off on all ranks" in output for output in outputs):
        sys.exit("not every rank was told that the lists of layers differ")
    merged = subprocess.run([args.tool, "merge", args.out / "apart"], text=True, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    print(merged)
    if not re.search(r"lists of batch norm layers differ: \"norm2 .*excluded\" on rank 1", merged):
        sys.exit("the merge does not tell the layer that only one rank leaves out")
    return outputs[0]


def difference_in(output):
    return float(re.search(r"largest difference to \S+: ([\d.e+-]+)", output)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("tool", "program", "preload", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    one = args.out / "one.pt"
    run([args.program, "--dump", one])

    def on_ranks(name, settings):
        output = run([args.tool, "run", "--nproc", "2", "--out", args.out / name, "--",
                      args.program, "--model", one], settings)
        return output, difference_in(output)

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
    if difference_in(run_apart(args, one)) != local:
        sys.exit("ranks whose lists of layers differ do not train what they train without it")


main()
