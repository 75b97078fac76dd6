#!/usr/bin/env python3
"""Refuses commits whose subject is not `area: Effect` within 64 characters.

Exit 77, which ctest counts as skipped, where the history cannot be read.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import gate

# The last commit with a longer subject.
BASE = "63e25ada90572f6e7264458949c608f41be45361"
COLUMNS = 64
# Commits that stay as they are: <hash> | <reason>.
ALLOWED = "ci/commits_allowed.txt"
SUBJECT = re.compile(r"([\w.-]+): [A-Z0-9`].*[^.\s]")


def skip(reason):
    print(f"check_commits: skipped: {reason}")
    sys.exit(77)


class History:
    def __init__(self, root, base):
        self.root, self.base = root, base

    def git(self, *arguments):
        command = [*gate.GIT, "-C", str(self.root), *arguments]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            skip("git is missing")
        return run.stdout.strip() if run.returncode == 0 else None

    def why_unreadable(self):
        if not (pathlib.Path(self.root) / ".git").exists() or self.git("rev-parse", "HEAD") is None:
            return "not a git checkout"
        if self.git("rev-parse", "--is-shallow-repository") == "true":
            return "a shallow clone has no history"
        if self.git("merge-base", "--is-ancestor", self.base, "HEAD") is None:
            return f"the history does not hold the base {self.base[:12]}"
        return None

    def commits(self):
        """(hash, subject) of each commit after the base."""
        lines = self.git("log", "--no-merges", "--format=%H %s", f"{self.base}..HEAD").splitlines()
        return [line.partition(" ")[::2] for line in lines]

    def areas(self):
        """The top-level folders that are, or were since the base."""
        now = self.git("ls-tree", "-d", "--name-only", "HEAD").split()
        since = self.git("log", "--format=", "--name-only", f"{self.base}..HEAD").splitlines()
        return {*now, *(name.split("/")[0] for name in since if "/" in name)}


def subject_fault(subject, areas):
    if len(subject) > COLUMNS:
        return f"{len(subject)} characters, {COLUMNS} are allowed"
    match = SUBJECT.fullmatch(subject)
    if not match:
        return "not `area: Effect in the imperative` without a full stop"
    if match[1] not in areas:
        return f"{match[1]} is no top-level folder"
    return None


def allowed_commits(root):
    path = pathlib.Path(root) / ALLOWED
    rows = [line.split("|") for line in path.read_text().splitlines()] if path.exists() else []
    return [row[0].strip() for row in rows if len(row) == 2 and row[1].strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent)
    parser.add_argument("--base", default=BASE, help="commits after this one are read")
    options = parser.parse_args()
    history = History(options.root, options.base)
    reason = history.why_unreadable()
    if reason:
        skip(reason)
    commits, areas = history.commits(), history.areas()
    if not commits:
        skip(f"there is no commit after {options.base[:12]}")
    allowed, faults = allowed_commits(options.root), []
    for commit, subject in commits:
        fault = subject_fault(subject, areas)
        if fault and commit not in allowed:
            faults.append(f"{commit[:12]}: {subject}: {fault}")
    gate.finish("check_commits", faults, len(commits))


main()
