"""The module graph as CMake has it: what each folder's CMakeLists.txt declares."""

import dataclasses
import pathlib
import re

CORE = ("model", "config", "records", "checks", "report", "stacks", "tools")
CALL = re.compile(r"(\w+)\(((?:[^()]|\([^()]*\))*)\)")


@dataclasses.dataclass
class Target:
    """One ddpscope_add_module, or all other targets of a folder together."""

    folder: str
    depends: set = dataclasses.field(default_factory=set)
    sources: set = dataclasses.field(default_factory=set)
    torch: bool = False


@dataclasses.dataclass
class Graph:
    targets: list
    faults: list

    def target_of(self, name):
        """The module that compiles this file (or the header's .cpp), else the folder's rest."""
        folder, _, rest = name.partition("/")
        stem = rest.rsplit(".", 1)[0]
        of_folder = [target for target in self.targets if target.folder == folder]
        modules = [target for target in of_folder if target.sources]
        for target in modules:
            if stem in target.sources:
                return target
        if len(modules) == 1 and len(of_folder) == 1:
            return modules[0]
        return Target(folder, set().union(*(target.depends for target in of_folder), {folder}),
                      torch=any(target.torch for target in of_folder))

    def depends(self, folder):
        return set().union(*(t.depends for t in self.targets if t.folder == folder)) - {folder}

    def folders(self):
        return sorted({target.folder for target in self.targets})


def words_by_keyword(body):
    words, key = {"": []}, ""
    for word in body.split():
        if word in ("SOURCES", "DEPENDS", "LINK", "TORCH"):
            key = word
            words.setdefault(key, [])
        else:
            words[key].append(word)
    return words


def read_folder(folder, text, names):
    """The targets of one CMakeLists.txt; `names` learns which folder a module lies in."""
    rest = Target(folder)
    targets = [rest]
    for call, body in CALL.findall(re.sub(r"#[^\n]*", "", text)):
        if call == "ddpscope_add_module":
            words = words_by_keyword(body)
            stems = {source.rsplit(".", 1)[0] for source in words.get("SOURCES", [])}
            targets.append(Target(folder, set(words.get("DEPENDS", [])), stems, "TORCH" in words))
            names[words[""][0]] = folder
        elif call == "target_link_libraries":
            rest.depends |= set(re.findall(r"\bddpscope_(\w+)", " ".join(body.split()[1:])))
            rest.torch = rest.torch or "ddpscope::torch" in body
    return targets


def read_graph(root):
    targets, names, faults = [], {}, []
    for path in sorted(pathlib.Path(root).glob("*/CMakeLists.txt")):
        if path.parent.name not in ("tests", "build"):
            targets += read_folder(path.parent.name, path.read_text(), names)
    for target in targets:
        for module in target.depends - names.keys() if target.sources else ():
            faults.append(f"{target.folder}/CMakeLists.txt: DEPENDS {module} is no module")
        if target.torch and target.folder in CORE:
            faults.append(f"{target.folder}/CMakeLists.txt: the core does not know LibTorch")
        target.depends = {names[module] for module in target.depends if module in names}
        target.depends.add(target.folder)
    graph = Graph(targets, faults)
    faults += cycles(graph)
    return graph


def cycles(graph):
    """Peels off what depends on nothing that is left; what cannot be peeled is a cycle."""
    left = {folder: graph.depends(folder) for folder in graph.folders()}
    while True:
        free = [folder for folder, needs in left.items() if not needs & left.keys()]
        if not free:
            break
        left = {folder: needs for folder, needs in left.items() if folder not in free}
    return [f"CMakeLists.txt: DEPENDS makes a cycle of {', '.join(sorted(left))}"] if left else []
