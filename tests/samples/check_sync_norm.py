#!/usr/bin/env python3
"""Runs the sample `sync_norm` on so many ranks: with synchronized batch norm they must train what
one process trains, to rounding, and with local ones something else."""
import argparse
import os
import re
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(program, ranks):
    port = str(free_port())
    processes = [subprocess.Popen([program], text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                                       "MASTER_PORT": port})
                 for rank in range(ranks)]
    outputs = [process.communicate()[0] for process in processes]
    failed = [rank for rank, process in enumerate(processes) if process.returncode]
    if failed:
        sys.exit(f"ranks {failed} failed")
    return outputs[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--ranks", type=int, required=True)
    arguments = parser.parse_args()
    output = run(arguments.program, arguments.ranks)
    print(output)
    found = dict(re.findall(r"(synchronized|local) batch norm +([\d.e+-]+)", output))
    if "2 of 2 batch norms converted" not in output:
        sys.exit("not every batch norm was converted")
    if not float(found["synchronized"]) < 1e-5:
        sys.exit("synchronized batch norm trains another network than one process")
    if not float(found["local"]) > 1e-2:
        sys.exit("local batch norm trains what one process does: the sample shows nothing")


main()
