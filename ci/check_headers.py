#!/usr/bin/env python3
"""Refuses headers that do not compile alone.

A header that its .cpp includes first was compiled alone by the build, unless a precompiled header
or another file came before it. Headers that bring LibTorch take minutes, those of CUDA a toolkit:
they are left out, and so are those of tests, samples and benchmarks, which nobody else includes;
the build compiles the public one alone.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile

import gate

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
ABSENT = ("torch/", "ATen/", "c10/", "cuda_", "nccl.h", "cub/", "thrust/")
KINDS = 16  # of headers that are precompiled
PROGRAMS = ("tests", "samples", "benchmarks")


def closure(root, name):
    """The texts of a header and all of ours below it; nothing where LibTorch or CUDA is needed."""
    texts, open_names = {}, [name]
    while open_names:
        current = open_names.pop()
        if current.startswith(ABSENT):
            return None
        for path in (current, "include/" + current):
            if path not in texts and (root / path).is_file():
                texts[path] = gate.read(root, path)
                open_names += INCLUDE.findall(texts[path])
    return texts


def compiled_by_build(root, name):
    source = root / (name.rsplit(".", 1)[0] + ".cpp")
    first = INCLUDE.search(source.read_text()) if source.is_file() else None
    folder = root / name.split("/")[0] / "CMakeLists.txt"
    build = folder.read_text() if folder.is_file() else ""
    alone = "target_precompile_headers" not in build and "ddpscope_join_sources" not in build
    return bool(first) and first[1] == name and alone


def foreign(root, texts):
    """What a header and those of ours below it include of the system and of libraries."""
    names = {name for text in texts.values() for name in INCLUDE.findall(text)}
    return frozenset(name for name in names
                     if not (root / name).is_file() and not (root / "include" / name).is_file())


class Precompiled:
    """The sets of foreign headers that most of ours include, each read once. A header meets none
    that it would not have read itself."""

    def __init__(self, compiler, folder, sets):
        self.sets = {}
        for place, (names, count) in enumerate(collections.Counter(sets).most_common(KINDS)):
            header = pathlib.Path(folder) / f"{place}.h"
            header.write_text("".join(f"#include <{name}>\n" for name in sorted(names)))
            if names and count > 1 and not run_compiler(
                    compiler, folder, "-x", "c++-header", header, "-o", f"{header}.gch").returncode:
                self.sets[names] = header

    def options(self, names):
        known = max((held for held in self.sets if held <= names), key=len, default=None)
        return ["-include", self.sets[known]] if known else []


def run_compiler(compiler, folder, *arguments):
    return subprocess.run([*compiler.split(), "-std=c++20", "-w", *arguments],
                          cwd=folder, capture_output=True, text=True, check=False)


def compile_alone(compiler, root, name, options=()):
    """The first error, as file:line: what."""
    run = run_compiler(compiler, root, *options, "-fsyntax-only", "-I.", "-Iinclude",
                       "-x", "c++", name)
    if run.returncode == 0:
        return None
    errors = [line for line in run.stderr.splitlines() if "error:" in line]
    return f"{name}:1: does not compile alone: {(errors or run.stderr.splitlines() or ['?'])[0]}"


def known_digests(cache):
    try:
        return json.loads(cache.read_text())
    except (AttributeError, OSError, ValueError):
        return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--cache", type=pathlib.Path, help="remembers what compiled")
    options = parser.parse_args()
    root = pathlib.Path(options.root)

    names = [name for name in gate.source_files(root, (".h", ".cuh"))
             if "/" in name and name.split("/")[0] not in PROGRAMS]
    digests, needs = {}, {}
    for name in names:
        texts = closure(root, name)
        if texts is not None and not compiled_by_build(root, name):
            whole = json.dumps([options.compiler, sorted(texts.items())])
            digests[name] = hashlib.sha256(whole.encode()).hexdigest()
            needs[name] = foreign(root, texts)
    compiled = known_digests(options.cache)
    stale = [name for name, digest in digests.items() if compiled.get(name) != digest]
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        known = Precompiled(options.compiler, folder, [needs[name] for name in stale])
        results = list(pool.map(lambda name: compile_alone(
            options.compiler, root, name, known.options(needs[name])), stale))
    refused = [name for name, fault in zip(stale, results) if fault]
    if options.cache:
        kept = {name: digest for name, digest in digests.items() if name not in refused}
        options.cache.write_text(json.dumps(kept))
    gate.finish("check_headers", [fault for fault in results if fault], len(names))


main()
