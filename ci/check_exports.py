#!/usr/bin/env python3
"""Refuses what a library exports beyond its version script, and libraries it would bring along.

Exit 77, which ctest counts as skipped, where the library is not built.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import gate

# What LibTorch and the C++ runtime bring into the process anyway, libdw, and the sanitizers.
NEEDED = re.compile(r"lib(torch|torch_cpu|torch_cuda|c10|c10_cuda|cudart|stdc\+\+|gcc_s|m|c|dl|"
                    r"pthread|rt|dw|asan|tsan|ubsan)\.so(\.\d+)?|ld-linux-x86-64\.so\.2")
# A pattern in extern "C++" sees demangled text, where the result of a foreign template may come
# first: symbols are judged by their mangled begin.
MANGLED = {"": "_ZN[VKRO]*", "typeinfo for ": "_ZTIN", "typeinfo name for ": "_ZTSN",
           "vtable for ": "_ZTVN"}


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def namespace_pattern(name, line, pattern):
    """The regular expression of the mangled names, or nothing if the pattern is too wide."""
    match = re.fullmatch(r"((?:[a-z]+\?)*)((?:\w+::)+)\*", pattern)
    prefix = match and MANGLED.get(match[1].replace("?", " "))
    if prefix is None or match[2].split("::")[0] != "ddpscope":
        return None, f"{name}:{line}: {pattern}: only members of a namespace of ddpscope's"
    spaces = match[2].split("::")[:-1]
    return prefix + "".join(f"{len(space)}{space}" for space in spaces), None


def read_map(path):
    """What the script lets out: plain names, patterns of mangled names, faults of the script."""
    names, patterns, faults, inside = set(), [], [], False
    for number, line in enumerate(path.read_text().split("local:")[0].splitlines(), 1):
        word = line.strip().rstrip(";")
        if word.startswith('extern "C++"'):
            inside = True
        elif word == "}":
            inside = False
        elif inside:
            pattern, fault = namespace_pattern(path.name, number, word)
            patterns += [pattern] if pattern else []
            faults += [fault] if fault else []
        elif re.fullmatch(r"\w+", word):
            names.add(word)
        elif word not in ("", "{", "global:"):
            faults.append(f"{path.name}:{number}: {word}: not understood")
    return names, patterns, faults


def export_faults(library, path):
    names, patterns, faults = read_map(path)
    exported = {line.split()[-1].split("@")[0]
                for line in lines_of("nm", "-D", "--defined-only", str(library))}
    for symbol in sorted(exported - names):
        if not any(re.match(pattern, symbol) for pattern in patterns):
            text = lines_of("c++filt", symbol)[0]
            faults.append(f"{library.name}: exports {text}, which {path.name} does not list")
    for symbol in sorted(names - exported):
        faults.append(f"{library.name}: {symbol} of {path.name} is not exported")
    for pattern in patterns:
        if not any(re.match(pattern, symbol) for symbol in exported):
            faults.append(f"{library.name}: nothing begins with {pattern} of {path.name}")
    return faults, len(exported)


def needed_faults(library):
    for line in lines_of("readelf", "-d", str(library)):
        match = re.search(r"\(NEEDED\).*\[(.*)\]", line)
        if match and not NEEDED.fullmatch(match[1]):
            yield f"{library.name}: needs {match[1]}, which the program need not have"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="+", type=pathlib.Path, metavar="LIBRARY MAP")
    pairs = parser.parse_args().pairs
    faults, count = [], 0
    for library, script in zip(pairs[::2], pairs[1::2]):
        if not library.exists():
            print(f"check_exports: skipped: {library.name} is not built")
            sys.exit(77)
        found, symbols = export_faults(library, script)
        faults += [*found, *needed_faults(library)]
        count += symbols
    gate.finish("check_exports", faults, count)


main()
