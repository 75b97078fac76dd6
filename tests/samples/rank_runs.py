"""Runs the ranks of a program under several launchers."""
import json
import os
import shlex
import shutil
import socket
import subprocess
import time

LIMIT_S = 100


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def watched(preload, out):
    """The environment in which a program is watched by preloading alone."""
    return {"LD_PRELOAD": str(preload), "DDPSCOPE": f"console=quiet:report_dir={out}"}


def base_environment():
    dropped = ("LD_PRELOAD", "DDPSCOPE", "DDPSCOPE_RUN_ID", "DDPSCOPE_LAUNCHER")
    env = {key: value for key, value in os.environ.items() if key not in dropped}
    return {**env, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}


def start_ranks(command, ranks, environment, **streams):
    """One process per rank, as a launcher of jobs starts them."""
    base = base_environment()
    return [subprocess.Popen(command,
                             env={**base, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank),
                                  "WORLD_SIZE": str(ranks)}, **streams)
            for rank in range(ranks)]


def records_of(out, rank):
    file = out / f"rank-{rank}.jsonl"
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines(True) if line.endswith("\n")]


def wait_for_steps(out, ranks, steps=3, seconds=60):
    """Until each of the first ranks wrote so many step records."""
    wait_for_steps_of(out, range(ranks), steps, seconds)


def wait_for_steps_of(out, ranks, steps, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = [sum(record["record"] == "step" for record in records_of(out, rank))
                for rank in ranks]
        if min(seen) >= steps:
            return
        time.sleep(0.05)
    raise SystemExit(f"the ranks {list(ranks)} do not reach step {steps}")


def pid_of(out, rank):
    return records_of(out, rank)[0]["pid"]


def merged(tool, out, *others):
    """The report of a merge into the first folder, and its exit code."""
    run = subprocess.run([tool, "merge", out, *others], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, errors="replace")
    print(run.stdout)
    return json.loads((out / "report.json").read_text()), run.returncode


def ended(processes):
    """Their statuses; none outlives this."""
    try:
        return [process.wait(timeout=LIMIT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()


def start_preloaded(paths, command, ranks, out):
    return start_ranks(command, ranks, watched(paths.preload, out))


def start_run(paths, command, ranks, out):
    launch = [paths.tool, "run", "--nproc", str(ranks), "--out", out, "--"]
    return [subprocess.Popen(launch + command, env=base_environment())]


def start_script(paths, command, ranks, out):
    """`ddpscope run` of a script that starts the program, after another one."""
    script = out.parent / (out.name + ".sh")
    script.write_text("ls / > /dev/null\n" + shlex.join(map(str, command)) + "\nexit $?\n")
    return start_run(paths, ["bash", script], ranks, out)


def start_wrapped(paths, command, ranks, out):
    """A shell script that starts each rank in a subshell, under a limit of its own."""
    program = f"timeout {LIMIT_S} {shlex.join(map(str, command))}"
    starts = [f"(echo rank {rank}; RANK={rank} {program}) & ranks+=($!)" for rank in range(ranks)]
    script = "\n".join((*starts, "for rank in ${ranks[@]}; do wait $rank || exit; done"))
    env = {**base_environment(), **watched(paths.preload, out), "WORLD_SIZE": str(ranks)}
    return [subprocess.Popen(["bash", "-c", script], env=env)]


def start_mpi(paths, command, ranks, out):
    program = ("export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE; exec " +
               shlex.join(map(str, command)))
    env = {**base_environment(), **watched(paths.preload, out)}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    return [subprocess.Popen(launch + ["bash", "-c", program], env=env)]


def start_torchrun(paths, command, ranks, out):
    """torchrun is a program of LibTorch, too, and hosts the store of the ranks."""
    env = {**base_environment(), **watched(paths.preload, out)}
    launch = ["torchrun", "--no-python", "--standalone", "--nproc-per-node", str(ranks)]
    return [subprocess.Popen(launch + command, env=env)]


# Each starts the processes that end when the ranks have ended.
LAUNCHERS = {"preload": start_preloaded, "run": start_run, "script": start_script,
             "wrapped": start_wrapped, "mpirun": start_mpi, "torchrun": start_torchrun}
# Those that a machine need not have, and what brings them.
OPTIONAL = {"mpirun": "Debian: openmpi-bin", "torchrun": "PyPI: torch"}


def empty_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    return path
