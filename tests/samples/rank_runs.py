"""Runs the ranks of a sample as several launchers do, without `ddpscope run`'s help."""
import json
import os
import shutil
import socket
import subprocess
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def watched(preload, out):
    """The environment in which a program is watched by preloading alone."""
    return {"LD_PRELOAD": str(preload), "DDPSCOPE": f"console=quiet:report_dir={out}"}


def base_environment():
    dropped = ("LD_PRELOAD", "DDPSCOPE", "DDPSCOPE_RUN_ID")
    env = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**env, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}


def start_ranks(command, ranks, environment):
    """One process per rank, as a launcher of jobs starts them."""
    base = base_environment()
    return [subprocess.Popen(command, stderr=subprocess.DEVNULL,
                             env={**base, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank),
                                  "WORLD_SIZE": str(ranks)})
            for rank in range(ranks)]


def records_of(out, rank):
    file = out / f"rank-{rank}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines(True) if line.endswith("\n")]


def wait_for_steps(out, ranks, steps=3, seconds=60):
    """Until each rank wrote so many step records."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = [sum(record["record"] == "step" for record in records_of(out, rank))
                for rank in range(ranks)]
        if min(seen) >= steps:
            return
        time.sleep(0.05)
    raise SystemExit(f"the ranks do not reach step {steps}")


def pid_of(out, rank):
    return records_of(out, rank)[0]["pid"]


def merged(tool, out):
    """The report of a merge, and its exit code."""
    run = subprocess.run([tool, "merge", out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace")
    print(run.stdout)
    return json.loads((out / "report.json").read_text()), run.returncode


def empty_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    return path
