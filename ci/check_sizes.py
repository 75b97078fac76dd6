#!/usr/bin/env python3
"""Refuses what is too large to be read: long files, lines, functions, parameter lists, pages."""

import argparse
import pathlib
import re

import gate

FILE_LINES, CHECK_LINES, PAGE_LINES = 300, 150, 60
FUNCTION_LINES, KERNEL_LINES, COLUMNS, PARAMETERS = 40, 80, 100, 5
CASE_LINES = 80  # the sections of a test case are cases of their own
SCRIPTS = (".py", ".sh")
BUILD = (".cmake", "CMakeLists.txt")  # generator expressions cannot be broken: no column limit
ALLOWED = "ci/sizes_allowed.txt"

LITERALS = re.compile(
    r'R"([^\s()\\]*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/'
    r'|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)*\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
    re.MULTILINE)
SCOPE = re.compile(r"(?:^|[\s>\]])(?:namespace|class|struct|union|enum)\b|^\s*extern\s*$")
NO_FUNCTION = re.compile(r"^\s*(?:if|for|while|switch|catch|do|else|try)\b")
ACCESS = re.compile(r"^\s*(?:public|protected|private)\s*:")


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


def top_level(text, opening, closing):
    """`text` without what stands between the given brackets."""
    depth, kept = 0, []
    for character in text:
        depth -= character in closing and depth > 0
        if depth == 0:
            kept.append(character)
        depth += character in opening
    return "".join(kept)


def opens_function(head):
    bare = top_level(re.sub(r"operator\s*[^\s\w(]+|operator\s*\(\s*\)", "operator", head), "(", ")")
    bare = top_level(bare, "<", ">")
    if "(" not in bare or NO_FUNCTION.match(head):
        return False
    return "=" not in bare.split("(")[0] and not SCOPE.search(bare.split("(")[0])


def parameter_count(head):
    inside = re.search(r"\((.*)", re.sub(r"operator\s*\(\s*\)", "operator", head), re.DOTALL)[1]
    depth, commas, seen = 1, 0, False
    for character in inside:
        depth += (character in "([{<") - (character in ")]}>")
        if depth == 0:
            break
        commas += character == "," and depth == 1
        seen = seen or not character.isspace()
    return commas + 1 if seen else 0


def functions(text):
    """(first line, last line, head) of each function body outside another function."""
    code = LITERALS.sub(blank, text)
    head_start, found, position = 0, [], 0
    while position < len(code):
        character = code[position]
        if character == "{":
            head = code[head_start:position]
            stripped = ACCESS.sub("", head).lstrip()
            is_function = opens_function(head)
            if is_function or not (SCOPE.search(top_level(head, "<(", ">)")) or not stripped):
                end = matching_brace(code, position)
                if is_function and code[end + 1 :].lstrip()[:1] in (",", "{"):  # as in d_{2}
                    position = end + 1
                    continue
                if is_function:
                    first = code.count("\n", 0, position - len(stripped)) + 1
                    found.append((first, code.count("\n", 0, end) + 1, stripped))
                position = end
        if code[position : position + 1] in ("{", "}", ";"):
            head_start = position + 1
        position += 1
    return found


def matching_brace(code, position):
    depth = 0
    for at in range(position, len(code)):
        depth += (code[at] == "{") - (code[at] == "}")
        if depth == 0:
            return at
    return len(code)


def function_faults(name, text):
    for first, last, head in functions(text):
        limit = KERNEL_LINES if "__global__" in head else FUNCTION_LINES
        limit = CASE_LINES if head.startswith("TEST_CASE") else limit
        if last - first + 1 > limit:
            yield f"{name}:{first}: function of {last - first + 1} lines, {limit} are allowed"
        count = parameter_count(head)
        if count > PARAMETERS and not head.startswith("TEST_CASE"):
            yield f"{name}:{first}: {count} parameters, {PARAMETERS} are allowed"


def line_limit(name, check_files):
    if name.startswith("docs/checks/"):
        return PAGE_LINES
    return CHECK_LINES if name in check_files else FILE_LINES


def file_faults(name, text, limit):
    lines = text.splitlines()
    if len(lines) > limit:
        yield f"{name}: {len(lines)} lines, {limit} are allowed"
    if not name.endswith(gate.CODE + SCRIPTS):
        return
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield f"{name}:{number}: {len(line)} columns, {COLUMNS} are allowed"
    if name.endswith(gate.CODE):
        yield from function_faults(name, text)


def without_allowed(root, faults):
    """Drops the faults that the allow list names; a line of it that drops nothing is a fault."""
    path = pathlib.Path(root) / ALLOWED
    lines = path.read_text().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        name, what, reason = (part.strip() for part in (line + "||").split("|")[:3])
        if not reason:
            faults.append(f"{ALLOWED}:{number}: no reason beside {name}")
        kept = [fault for fault in faults if not (fault.startswith(name + ":") and what in fault)]
        if len(kept) == len(faults):
            kept.append(f"{ALLOWED}:{number}: {name} keeps this limit: remove the line")
        faults = kept
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent)
    root = parser.parse_args().root
    table = pathlib.Path(root) / "checks/checks.def"
    rows = gate.table_rows(table.read_text(), "DDPSCOPE_CHECK") if table.exists() else []
    check_files = {f"checks/{name}.cpp" for _, name, _ in rows}
    names = gate.source_files(root, gate.CODE + SCRIPTS + BUILD)
    names += [name for name in gate.source_files(root, [".md"]) if name.startswith("docs/checks/")]
    faults = []
    for name in names:
        faults += file_faults(name, gate.read(root, name), line_limit(name, check_files))
    gate.finish("check_sizes", without_allowed(root, faults), len(names))


main()
