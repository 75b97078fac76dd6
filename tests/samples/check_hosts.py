#!/usr/bin/env python3
"""Trains a sample on two hosts, which are network namespaces of this one, and disturbs the network
over which ddpscope compares ranks: taken down, or losing every packet.

The hosts share no folder. What is wrong must be told while they train, training must take no longer
for a network that is gone, and a merge of both folders must find the same each time. The sample
trains over a network of its own. Skips where no networks can be made."""
import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import rank_runs

SKIPPED = 77
INSIDE = "DDPSCOPE_TEST_INSIDE"
TOLD = "rank-optimizer-differs"
TIMEOUT_MS = 1000
LIMIT_S = 90
SLACK_S = 4  # of a busy machine
ENDED = re.compile(r"^ddpscope: warning: the exchange between ranks has ended: .*", re.MULTILINE)
NETWORKS = {"train": 1, "notes": 2}  # third number of their addresses
NO_MACHINE = "02:00:00:00:00:01"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def enter_networks():
    """Starts this script anew as one host, without any network."""
    if os.environ.pop(INSIDE, None):
        socket.sethostname("host-0")
        return
    if missing := [name for name in ("ip", "unshare", "nsenter") if not shutil.which(name)]:
        skip(f"{', '.join(missing)} is not installed (Debian: iproute2, util-linux)")
    command = ["unshare", "--net", "--uts"] + ["--map-root-user"] * (os.geteuid() != 0)
    tried = subprocess.run(command + ["ip", "link", "add", "name", "a0", "type", "veth"], text=True,
                           stderr=subprocess.PIPE, check=False)
    if tried.returncode != 0:
        skip(f"no networks can be made here: {tried.stderr.strip()}")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", command + [sys.executable, "-B"] + sys.argv)


class Hosts:
    """This process is on the first one; the second lives as long as a process that reads."""

    def __init__(self):
        self.second = subprocess.Popen(["unshare", "--net", "--uts", "cat"], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.second.stdin.write("ready\n")
        self.second.stdin.flush()
        self.second.stdout.readline()
        enter = ["nsenter", "--target", str(self.second.pid), "--net", "--uts"]
        self.commands = [[], enter]
        subprocess.run(enter + ["hostname", "host-1"], check=True)
        for name in NETWORKS:
            self.ip(0, "link", "add", "name", name, "type", "veth", "peer", "name", name,
                    "netns", str(self.second.pid))
        for host in range(2):
            self.ip(host, "link", "set", "lo", "up")
            for name in NETWORKS:
                self.ip(host, "address", "add", self.address(name, host) + "/24", "dev", name)
                self.ip(host, "link", "set", name, "up")

    @staticmethod
    def address(network, host):
        return f"10.77.{NETWORKS[network]}.{host + 1}"

    def ip(self, host, *words):
        subprocess.run(self.commands[host] + ["ip", *words], check=True)

    def take_down(self):
        self.ip(0, "link", "set", "notes", "down")

    def lose_packets(self):
        """Each host sends them to a machine that is not there."""
        for host in range(2):
            self.ip(host, "neighbour", "replace", self.address("notes", 1 - host), "lladdr",
                    NO_MACHINE, "nud", "permanent", "dev", "notes")

    def mend(self):
        for host in range(2):
            self.ip(host, "link", "set", "notes", "up")
            self.ip(host, "neighbour", "flush", "dev", "notes", "nud", "permanent")


class Run:
    def __init__(self, args, hosts, name, bug):
        self.out = rank_runs.empty_folder(args.out / name)
        self.out.mkdir(parents=True)
        self.begin = time.monotonic()
        base = {**rank_runs.base_environment(), "MASTER_ADDR": hosts.address("notes", 0),
                "GLOO_SOCKET_IFNAME": "train", "DDPSCOPE_RUN_ID": name, "WORLD_SIZE": "2"}
        self.ranks = []
        for rank in range(2):
            settings = f"exchange_timeout_ms={TIMEOUT_MS}:report_dir={self.folder(rank)}"
            with open(self.log(rank), "w", encoding="utf-8") as log:
                self.ranks.append(subprocess.Popen(
                    hosts.commands[rank] + [args.program, "--bug", bug] + args.arguments,
                    env={**base, "RANK": str(rank), "LOCAL_RANK": "0", "DDPSCOPE": settings},
                    stdout=log, stderr=log))

    def folder(self, rank):
        return self.out / f"host-{rank}"

    def log(self, rank):
        return self.out / f"rank-{rank}.log"

    def said(self, rank):
        return self.log(rank).read_text(encoding="utf-8", errors="replace")

    def wait_until_told(self):
        end = time.monotonic() + LIMIT_S
        while f"[{TOLD}]" not in self.said(0):
            if time.monotonic() > end or any(rank.poll() is not None for rank in self.ranks):
                for rank in self.ranks:
                    rank.kill()
                sys.exit(f"{TOLD} was not told while the ranks ran:\n" + self.said(0))
            time.sleep(0.1)

    def end(self):
        """How long the ranks took."""
        statuses = rank_runs.ended(self.ranks)
        if any(statuses):
            sys.exit(f"the ranks ended with {statuses}:\n" + self.said(0) + self.said(1))
        return time.monotonic() - self.begin

    def findings(self, tool):
        report, _ = rank_runs.merged(tool, self.folder(0), self.folder(1))
        if report["missing_ranks"] or len({run["host"] for run in report["ranks"]}) != 2:
            sys.exit(f"merged of {report['ranks']}, without {report['missing_ranks']}")
        return sorted((finding["id"], finding["subject"], finding["ranks"])
                      for finding in report["findings"] if finding["severity"] != "note")


def disturbed(args, hosts, name, disturb):
    run = Run(args, hosts, name, "rate-of-its-own")
    run.wait_until_told()
    disturb()
    seconds = run.end()
    hosts.mend()
    lines = ENDED.findall(run.said(1))
    if len(lines) != 1:
        sys.exit(f"{name}: rank 1 said {lines}")
    return seconds, run.findings(args.tool)


def main():
    parser = argparse.ArgumentParser()
    for name in ("tool", "program", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    enter_networks()
    hosts = Hosts()
    run = Run(args, hosts, "quiet", "rate-of-its-own")
    run.wait_until_told()
    quiet_s = run.end()
    expected = run.findings(args.tool)
    if TOLD not in {finding[0] for finding in expected} or ENDED.search(run.said(0) + run.said(1)):
        sys.exit(f"undisturbed: {expected}\n" + run.said(0) + run.said(1))
    for name, disturb in (("down", hosts.take_down), ("lost", hosts.lose_packets)):
        seconds, found = disturbed(args, hosts, name, disturb)
        print(f"{name}: {seconds:.1f} s, undisturbed {quiet_s:.1f} s")
        if found != expected:
            sys.exit(f"{name}: {found}, undisturbed {expected}")
        if seconds > quiet_s + TIMEOUT_MS / 1000 + SLACK_S:
            sys.exit(f"{name}: it took longer")
    right = Run(args, hosts, "right", "none")
    right.end()
    if found := right.findings(args.tool):
        sys.exit(f"without a mistake: {found}")


main()
