#!/usr/bin/env python3
"""Refuses includes that the module graph of CMake does not allow, and libraries out of place."""

import argparse
import pathlib
import re

import gate
import module_graph

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.MULTILINE)
TORCH = ("torch", "ATen", "c10", "caffe2")
SYSTEM = ("sys", "arpa", "netinet", "sanitizer")
PUBLIC_USERS = ("include", "plugin", "ops", "samples", "benchmarks", "tests")
# Headers of the gate are no library: whoever fills slots may name them.
GATE_HEADER = {"interpose/gate.h": ("hooks", "plugin")}
# What a library may be included from; a test may use what its module may.
LIBRARIES = {
    "fmt": ("config/", "records/", "checks/", "report/", "stacks/", "tools/", "plugin/log.",
            "cmake/compiled_fmt."),
    "nlohmann": ("records/", "report/", "tools/", "tests/"),
    "simdjson": ("records/",),
    "spdlog": ("plugin/log.",),
    "CLI": ("tools/",),
    "elfutils": ("stacks/",),
    "catch2": ("tests/support/",),
    "benchmark": ("benchmarks/",),
    "CUDA": ("cuda/", "values/", "hooks/", "ops/"),
}
CUDA = re.compile(r"(?:cu|nccl|nvtx)\w*\.h|cub|thrust|cooperative_groups|cuda/atomic")
# The environment is read in one place, and by the gate, which is out of its reach.
GETENV = re.compile(r"\bgetenv\s*\(")
GETENV_PLACES = ("config/env.cpp", "interpose/gate.c", "tests/", "samples/", "benchmarks/")


class Sources:
    """Every file's includes, as (line, bracket, path), and what they reach."""

    def __init__(self, texts):
        self.found = {
            name: [(text.count("\n", 0, match.start(1)) + 1, match[1], match[2])
                   for match in INCLUDE.finditer(text)]
            for name, text in texts.items()}

    def reached(self, path):
        """The first folders of all that this include brings, its own among them."""
        libraries, seen, open_paths = set(), set(), [path]
        while open_paths:
            path = open_paths.pop()
            if path in seen:
                continue
            seen.add(path)
            libraries.add(path.split("/")[0])
            includes = self.found.get(path) or self.found.get("include/" + path) or ()
            open_paths += [below for _, _, below in includes]
        return libraries


def own_name(name):
    """The file's path as its module has it: a test is judged as the folder that it tests."""
    parts = name.split("/")
    return "/".join(parts[1:]) if parts[0] == "tests" and len(parts) > 2 else name


def allowed_folders(name, graph):
    folder = own_name(name).split("/")[0]
    if name.startswith(("tests/support/", "tests/fuzz/", "benchmarks/")):
        return set(graph.folders()) | {"tests", "benchmarks"}
    allowed = set(graph.target_of(own_name(name)).depends) | {folder}
    if name.startswith("tests/"):
        allowed |= graph.depends(folder)
    return allowed


def torch_allowed(name, graph):
    if name.startswith("tests/support/"):
        return pathlib.Path(name).stem in ("torch_test", "preloaded", "gpu_program")
    if name.startswith("tests/") and name.endswith("_program.cpp"):
        return True  # a program of a user
    if name.startswith(("include/", "benchmarks/")):
        return True
    return graph.target_of(own_name(name)).torch


def own_fault(name, path, graph):
    """Why this quoted include is refused, or nothing."""
    target = path.split("/")[0]
    if "../" in path:
        return "the path starts at the repository root"
    if name.split("/")[0] in GATE_HEADER.get(path, ()):
        return None
    if target == "tests":
        mine = "/".join(name.split("/")[:2])
        fine = mine.startswith("tests/") and path.startswith((mine + "/", "tests/support/"))
        return None if fine else "tests are included by their own folder only"
    if "/" not in path:
        return None if path.endswith(".inc") else "the path does not name its module"
    if target not in allowed_folders(name, graph):
        return f"{own_name(name).split('/')[0]} does not depend on {target}"
    return None


def library_fault(name, path):
    first = path.split("/")[0]
    library = "CUDA" if CUDA.match(path) else first
    if library == "ddpscope":
        fine = name.split("/")[0] in PUBLIC_USERS
        return None if fine else "the public headers are for users"
    if library in LIBRARIES:
        places = LIBRARIES[library]
        fine = name.startswith(places) or own_name(name).startswith(places)
        return None if fine else f"{library} is allowed in {', '.join(places)} only"
    if "/" in path and library not in (*TORCH, *SYSTEM):
        return f"no module may use {library}: see LIBRARIES in ci/check_includes.py"
    return None


def file_faults(name, sources, graph):
    brings = {path: sources.reached(path) for _, _, path in sources.found[name]}
    knows_torch = any(brought & set(TORCH) for brought in brings.values())
    for line, bracket, path in sources.found[name]:
        if bracket == "<" or path.split("/")[0] in (*TORCH, *LIBRARIES, "ddpscope"):
            fault = library_fault(name, path)
        else:
            fault = own_fault(name, path, graph)
        if not fault and brings[path] & set(TORCH) and not torch_allowed(name, graph):
            fault = "this file does not know LibTorch"
        if not fault and knows_torch and "fmt" in brings[path]:
            fault = "LibTorch brings another fmt: no file includes both"
        if fault:
            yield f"{name}:{line}: {path}: {fault}"


def getenv_faults(name, text):
    for match in () if name.startswith(GETENV_PLACES) else GETENV.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}:{line}: getenv is allowed in config/env.cpp only"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent)
    root = parser.parse_args().root
    graph = module_graph.read_graph(root)
    faults = list(graph.faults)
    names = [name for name in gate.source_files(root, gate.CODE) if "/" in name]
    texts = {name: gate.read(root, name) for name in names}
    sources = Sources(texts)
    for name in names:
        faults += [*file_faults(name, sources, graph), *getenv_faults(name, texts[name])]
    gate.finish("check_includes", faults, len(names))


main()
