"""What the gates share: which files they read, and how they say what they refuse."""

import pathlib
import re
import subprocess
import sys

CODE = (".h", ".cpp", ".c", ".cu", ".cuh")
NOT_OURS = ("build", ".deps", ".git")
# Reads also the checkout of another user, as in a container.
GIT = ("git", "-c", "safe.directory=*")


def source_files(root, suffixes):
    """The tracked files of `root`; in a copy without git, every file outside the build folders."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        listing = subprocess.run(
            [*GIT, "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True)
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        paths = (path.relative_to(root) for path in root.rglob("*"))
        names = [str(path) for path in paths if path.parts[0] not in NOT_OURS]
    wanted = sorted({name for name in names if name.endswith(tuple(suffixes))})
    return [name for name in wanted if (root / name).is_file()]


def read(root, name):
    return (pathlib.Path(root) / name).read_text(encoding="utf-8", errors="replace")


def table_rows(text, macro):
    """The rows `macro("id", name, ...)` of a table: one (id, name, strings after them) each."""
    rows = []
    for match in re.finditer(rf"^{macro}\((.*?)\)$", text, re.MULTILINE | re.DOTALL):
        strings = [part.strip() for part in re.split(r'("(?:[^"\\]|\\.)*")', match[1])]
        joined = []
        for part in (part for part in strings if part):
            if part.startswith('"') and joined and joined[-1].startswith('"'):
                joined[-1] = joined[-1][:-1] + part[1:]
            else:
                joined.append(part)
        quoted = [part[1:-1].replace('\\"', '"') for part in joined if part.startswith('"')]
        name = re.search(r'"\s*,\s*(\w+)', match[1])
        rows.append((quoted[0], name[1] if name else "", quoted[1:]))
    return rows


def finish(gate, faults, read_count):
    """Prints each fault and the sum; a gate that read nothing has not passed."""
    for fault in faults:
        print(fault)
    if read_count == 0:
        print(f"{gate}: error: read nothing")
        sys.exit(2)
    print(f"{gate}: {read_count} read, {len(faults)} refused")
    sys.exit(1 if faults else 0)
