#!/usr/bin/env python3
"""Compares the tables of checks and settings with what each row promises: code, page, test."""

import argparse
import pathlib
import re

import gate

CHECKS, SETTINGS = "checks/checks.def", "config/settings.def"
HEADER, SETTINGS_PAGE = "include/ddpscope/ddpscope.h", "docs/settings.md"
WORDS_OF_ALL = ("1", "on", "true", "yes", "0", "off", "false", "no")


def one_line(text):
    return " ".join(text.split())


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)

    def text(self, name):
        path = self.root / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def all_text(self, pattern):
        return "".join(self.text(path) for path in self.root.glob(pattern))

    def line(self, name, needle):
        """Where the table has it."""
        text = self.text(name)
        return f"{name}:{text.count(chr(10), 0, max(text.find(needle), 0)) + 1}"


def page_faults(tree, row, severity, summary):
    name = f"docs/checks/{row}.md"
    paragraphs = tree.text(name).strip().split("\n\n")
    if paragraphs == [""]:
        yield f"{tree.line(CHECKS, row)}: {row} has no page {name}"
        return
    if paragraphs[0].split("\n")[0] != f"# {row}":
        yield f"{name}:1: the title is not {row}"
    if len(paragraphs) < 2 or one_line(paragraphs[1]) != summary:
        yield f"{name}:3: the first sentence is not the summary of the table: {summary}"
    if len(paragraphs) < 3 or not re.match(rf"Severity: {severity}\b", paragraphs[2]):
        yield f"{name}:5: the severity of the table is {severity}"
    if f"[{row}]" not in tree.text(name):
        yield f"{name}:1: no report that ends in [{row}]"


def code_faults(tree, row, name, summary):
    """What a check has and a row about the tool itself has not."""
    at = tree.line(CHECKS, row)
    if f"make_{name}(" not in tree.text(f"checks/{name}.cpp"):
        yield f"{at}: {row} has no checks/{name}.cpp with make_{name}"
    if row not in tree.text(f"tests/checks/{name}_test.cpp"):
        yield f"{at}: {row} has no test tests/checks/{name}_test.cpp that names it"
    about_itself = row.startswith("tool-")  # no program of a user makes it speak
    reported = re.search(rf"(?m)^[^#].*\b{row}\s", tree.all_text("samples/*/expected.txt"))
    if not about_itself and not reported:
        yield f"{at}: {row} has no row in an expected.txt of samples/"
    if f"- `{row}`: {summary}" not in one_line(tree.text("CHANGELOG.md")):
        yield f"{at}: {row} has no entry in CHANGELOG.md: - `{row}`: {summary}"


def check_faults(tree):
    table = tree.text(CHECKS)
    checks = gate.table_rows(table, "DDPSCOPE_CHECK")
    rows = checks + gate.table_rows(table, "DDPSCOPE_TOOL_CHECK")
    ids, faults = [row for row, _, _ in rows], []
    for row, name, strings in rows:
        summary = strings[-1]
        severity = re.search(rf'"{row}",\s*\w+,\s*k(\w+)', table)[1].lower()
        if ids.count(row) > 1:
            faults.append(f"{tree.line(CHECKS, row)}: {row} is there twice")
        if name != row.replace("-", "_"):
            faults.append(f"{tree.line(CHECKS, row)}: {name} is not {row} with underscores")
        faults += page_faults(tree, row, severity, summary)
        if (row, name, strings) in checks:
            faults += code_faults(tree, row, name, summary)
        elif row not in tree.all_text("tests/*/*.cpp"):
            faults.append(f"{tree.line(CHECKS, row)}: no test names {row}")
    for page in sorted(tree.root.glob("docs/checks/*.md")):
        if page.stem not in ids:
            faults.append(f"docs/checks/{page.name}:1: {CHECKS} has no such check")
    return faults, ids


def setting_faults(tree):
    rows = gate.table_rows(tree.text(SETTINGS), "DDPSCOPE_SETTING")
    page = tree.text(SETTINGS_PAGE).splitlines()
    keys = [key for key, _, _ in rows]
    faults = []
    for key, name, strings in rows:
        at, meaning = tree.line(SETTINGS, f'"{key}"'), strings[-1].replace("|", "\\|")
        if name != key:
            faults.append(f"{at}: the member {name} is not named {key}")
        if keys.count(key) > 1:
            faults.append(f"{at}: {key} is there twice")
        if not any(line.startswith(f"| `{key}` |") and line.endswith(f" {meaning} |")
                   for line in page):
            faults.append(f"{at}: {SETTINGS_PAGE} has no row that says of {key}: {meaning}")
    on_page = [match[1] for match in map(re.compile(r"\| `(\w+)` \|.*\|.*\|").match, page) if match]
    members = re.findall(r"std::optional<[\w:]+> (\w+)\{\};", tree.text(HEADER))
    for place, names in ((SETTINGS_PAGE, on_page), (HEADER, members)):
        known = [name for name in names if name in keys]
        for name in names:
            if name not in keys:
                faults.append(f"{tree.line(place, name)}: {SETTINGS} has no key {name}")
        if known != keys:
            missing = ", ".join(key for key in keys if key not in known)
            faults.append(f"{place}:1: not the keys of {SETTINGS} in order; missing: {missing}")
    return faults, keys


def use_faults(tree, ids, keys):
    """Settings that a page tells the reader to set."""
    for name in gate.source_files(tree.root, [".md"]):
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            for value in re.findall(r"DDPSCOPE=([\w.=:,*%/-]+)", line):
                for pair in re.split(r":", value.rstrip(".,:")):
                    key = pair.split("=")[0]
                    known = key in (*keys, "help") or key.split(".")[0] in ids
                    if not known and pair not in WORDS_OF_ALL:
                        yield f"{name}:{number}: {key}: {SETTINGS} has no such key"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent)
    tree = Tree(parser.parse_args().root)
    faults, ids = check_faults(tree)
    of_settings, keys = setting_faults(tree)
    faults += of_settings + list(use_faults(tree, ids, keys))
    gate.finish("check_table", faults, min(len(ids), len(keys)) and len(ids) + len(keys))


main()
