#!/usr/bin/env python3
"""Refuses a table of hooked layers in docs/hooks.md that differs from what was built.

--write puts the table there instead. Exit 77, which ctest counts as skipped, where the list of the
build is missing.
"""

import argparse
import pathlib
import re
import sys

import gate

PAGE = "docs/hooks.md"
BEGIN, END = "<!-- layers: written by ci/check_hooks_page.py -->\n", "<!-- end of layers -->\n"
NORMALIZATIONS = [f"{kind}Norm{n}d" for kind in ("Batch", "Instance") for n in (1, 2, 3)]


def table(listed):
    """The rows of the layers in `forward_list.inc`, and of those that are seen at an operator."""
    forwards = re.findall(r"^DDPSCOPE_FORWARD\((\w+)Impl,", listed, re.MULTILINE)
    seen = {name: "forward" for name in forwards}
    for name in NORMALIZATIONS:
        seen[name] = f"`aten::{'batch' if name[0] == 'B' else 'instance'}_norm`"
    rows = (f"| `{name}` | {seen[name]} |\n" for name in sorted(seen))
    return f"| {len(seen)} layers of `torch::nn` | seen at |\n|---|---|\n" + "".join(rows)


def faults_of(page, wanted):
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        return [f"{PAGE}: the marks of the table are missing"]
    found = page[begin + len(BEGIN):end].splitlines()
    lines = wanted.splitlines()
    faults = [f"{PAGE}: {line}: not in this build" for line in found if line not in lines]
    return faults + [f"{PAGE}: {line}: missing" for line in lines if line not in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", type=pathlib.Path, help="forward_list.inc of the build")
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if not args.list.exists():
        print(f"check_hooks_page: skipped: {args.list.name} is not built")
        sys.exit(77)
    wanted = table(args.list.read_text())
    page = (args.root / PAGE).read_text()
    if args.write:
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        page = page[:begin] + wanted + page[end:]
        (args.root / PAGE).write_text(page)
    gate.finish("check_hooks_page", faults_of(page, wanted), len(wanted.splitlines()) - 2)


main()
