#!/usr/bin/env python3
"""Refuses pages that name what is not there: links, paths, commands, ids of checks, and places that
only one machine has; quotes that differ from the file they name; and pages of checks whose example
is not in the form of a report."""

import argparse
import fnmatch
import os
import pathlib
import re

import gate

FENCE = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
# ```cpp path/of/file.cpp: its lines, where `...` alone stands for lines left out
QUOTE = re.compile(r"^```\w+ ([\w.-]+/\S+)\n(.*?)^```[^\n]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`((?:[^`\n]|\n(?!\s*\n))+)`")
LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
COMMAND = re.compile(r"(?<![\w:/.-])ddpscope ([a-z]+)\b")
EXPLAIN = re.compile(r"ddpscope explain ([a-z]+(?:-[a-z]+)+)")
SCRIPT = re.compile(r"(?<![\w/.-])((?:\.ci|ci|scripts|benchmarks)/[\w./-]*\w)")
# The first example below `## Report`, and the lines that a finding has.
REPORT = re.compile(r"^## Report\n+((?: {4}.*\n)+)", re.MULTILINE)
REPORTED = ("{place}: (?:error|warning|note): .+ \\[{id}\\]", "  why: .+", "  fix: \\(.+",
            "  see: ddpscope explain {id}")
PLACE = r"ranks? [\d,-]+ step \d+(?: .+)?"
MACHINE = re.compile(r"(?<![\w.<>/)-])/(?:home|tmp|mnt|root|Users)/")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def slug(heading):
    """The anchor that renderers of Markdown give a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return text.strip().replace(" ", "-")


class Pages:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = set(gate.source_files(root, [""]))
        self.folders = {str(parent) for name in self.files
                        for parent in pathlib.PurePath(name).parents} - {"."}
        table = self.text("checks/checks.def")
        self.ids = re.findall(r'^DDPSCOPE_(?:TOOL_)?CHECK\("([^"]+)"', table, re.MULTILINE)
        self.groups = {row.split("-")[0] for row in self.ids}
        commands = self.text("tools/commands.def")
        self.commands = re.findall(r"^DDPSCOPE_COMMAND\((\w+)", commands, re.MULTILINE)

    def text(self, name):
        return gate.read(self.root, name) if (self.root / name).is_file() else ""

    def has(self, path):
        """`<id>`, `*` and `{h,cpp}` stand for any text."""
        path = re.sub(r"<[^>]*>|\{[^}]*\}", "*", path).rstrip("/")
        names = self.files | self.folders
        return path in names or ("*" in path and bool(fnmatch.filter(names, path)))

    def link_fault(self, name, target):
        if re.match(r"[a-z]+:", target):
            return None
        path, _, anchor = target.partition("#")
        base = pathlib.PurePath(name).parent
        full = os.path.normpath(base / path) if path else name
        if full not in self.files | self.folders:
            return f"{target}: there is no {full}"
        text = FENCE.sub(blank, self.text(full))
        if anchor and anchor not in {slug(heading) for heading in HEADING.findall(text)}:
            return f"{target}: {full} has no heading #{anchor}"
        return None

    def span_fault(self, span):
        for word in span.split():
            path = re.sub(r":\d+$", "", word.strip(".,;:()\"'"))
            if path.split("/")[0] in self.folders and "/" in path and not self.has(path):
                return f"{path}: not in this repository"
        if re.fullmatch(r"[a-z]+(?:-[a-z]+)+", span) and span.split("-")[0] in self.groups:
            return None if span in self.ids else f"{span}: no such check"
        return None

    def quote_fault(self, path, quote):
        if path not in self.files:
            return f"{path}: not in this repository"
        rest = "\n" + self.text(path)
        for part in re.split(r"^\.\.\.\n", quote, flags=re.MULTILINE):
            _, found, rest = rest.partition("\n" + part.rstrip("\n") + "\n")
            if part.strip() and not found:
                lines = set(self.text(path).splitlines())
                odd = next((line for line in part.splitlines() if line not in lines), None)
                return f"{path} does not say: {odd or part.splitlines()[0]}"
            rest = "\n" + rest
        return None

    def command_faults(self, text):
        for match in COMMAND.finditer(text):
            if self.commands and match[1] not in self.commands:
                yield match.start(), f"ddpscope {match[1]}: no such command"
        for match in SCRIPT.finditer(text):
            if match[1] not in self.files | self.folders:
                yield match.start(), f"{match[1]}: not in this repository"
            elif match[1].endswith((".sh", ".py")) and not os.access(self.root / match[1], os.X_OK):
                yield match.start(), f"{match[1]}: cannot be run"

    def report_fault(self, check, text):
        """Of the page of a check: what its example lacks; (where, what)."""
        found = REPORT.search(text)
        if not found:
            return 0, f"no report of {check} below ## Report"
        lines = [line[4:] for line in found[1].splitlines()]
        for form in REPORTED:
            pattern = form.format(place=PLACE, id=re.escape(check))
            if not any(re.fullmatch(pattern, line) for line in lines):
                line = form.format(place="PLACE", id=check)
                return found.start(1), f"the report has no line like: {line}"
        return 0, None

    def page_faults(self, name):
        text = self.text(name)
        folder, _, check = name.removesuffix(".md").rpartition("/")
        if folder == "docs/checks" and check in self.ids:
            yield self.report_fault(check, text)
        prose = FENCE.sub(blank, text)
        for match in LINK.finditer(SPAN.sub(blank, prose)):
            yield match.start(), self.link_fault(name, match[1])
        for match in SPAN.finditer(prose):
            yield match.start(), self.span_fault(match[1])
        for match in QUOTE.finditer(text):
            yield match.start(), self.quote_fault(match[1], match[2])
        for match in (*FENCE.finditer(text), *SPAN.finditer(prose)):
            for position, fault in self.command_faults(match[0]):
                yield match.start() + position, fault
        for match in EXPLAIN.finditer(text):
            if match[1] not in self.ids:
                yield match.start(), f"{match[0]}: no such check"
        for match in MACHINE.finditer(text):
            yield match.start(), f"{match[0]}: a place on one machine"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent)
    pages = Pages(parser.parse_args().root)
    faults, names = [], gate.source_files(pages.root, [".md"])
    for name in names:
        found = sorted((position, fault) for position, fault in pages.page_faults(name) if fault)
        for position, fault in found:
            line = pages.text(name).count("\n", 0, position) + 1
            faults.append(f"{name}:{line}: {fault}")
    gate.finish("check_docs", list(dict.fromkeys(faults)), len(names))


main()
