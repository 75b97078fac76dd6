#!/usr/bin/env python3
"""Uses ddpscope as programs outside of it do: installed, as a source tree, and as a package."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBRARIES = ("libddpscope.so", "libddpscope_preload.so")


def environment_with(added):
    dropped = ("LD_PRELOAD", "LD_LIBRARY_PATH", "DDPSCOPE", "DDPSCOPE_RUN_ID", "DDPSCOPE_LAUNCHER",
               "MASTER_ADDR")
    return {**{key: value for key, value in os.environ.items() if key not in dropped}, **added}


def run(*command, must_be=0, **environment):
    words = [str(word) for word in command]
    done = subprocess.run(words, env=environment_with(environment), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode != must_be:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\nended with {done.returncode}")
    return done.stdout


def demand(is_so, words):
    if not is_so:
        sys.exit(words)


def records_of(out):
    return [json.loads(line) for line in (out / "rank-0.jsonl").read_text().splitlines()]


def run_watched(program, out, **environment):
    """The records of its only rank, all of whose sources must be live."""
    shutil.rmtree(out, ignore_errors=True)
    run(program, DDPSCOPE=f"console=quiet:report_dir={out}", **environment)
    records = records_of(out)
    demand(not records[0]["blocked"], f"blocked: {records[0]['blocked']}")
    demand(records[0]["sources"]["gradient"] == "live", "the gate does not stand before LibTorch")
    demand(records[-1].get("clean_exit"), f"no clean exit: {records[-1]}")
    return records


def install(args):
    """Installs, and moves what was installed: nothing in it may know its first place."""
    first = args.work / "installed_here"
    for folder in (first, args.prefix):
        shutil.rmtree(folder, ignore_errors=True)
    run("cmake", "--install", args.build, "--prefix", first)
    first.rename(args.prefix)
    wanted = [pathlib.Path("bin/ddpscope"), *(args.libdir / name for name in LIBRARIES)]
    for folder, below in (("include/ddpscope", "include/ddpscope"), ("docs", "share/doc/ddpscope")):
        wanted += [below / path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*")
                   if path.suffix in (".h", ".md")]
    wanted += [pathlib.Path("share/doc/ddpscope", name)
               for name in ("LICENSE", "NOTICES.txt", "THIRD_PARTY.md", "CHANGELOG.md")]
    missing = [str(name) for name in wanted if not (args.prefix / name).is_file()]
    demand(not missing, f"not installed: {missing}")
    for file in (*args.prefix.rglob("*.cmake"), *args.prefix.rglob("*.pc")):
        text = file.read_text()
        for place in (first, args.build):
            demand(f"{place}/" not in text, f"{file} names {place}")


def find_package(args):
    build = args.work / "find_package"
    shutil.rmtree(build, ignore_errors=True)
    source = [f"-DTRAIN_SOURCE={args.object}"] if args.object else []
    run("cmake", "-S", HERE / "find_package", "-B", build, f"-DCMAKE_PREFIX_PATH={args.prefix}",
        f"-DTRAIN_TORCH_DIR={args.torch}", "-DCMAKE_BUILD_TYPE=Release", *source)
    run("cmake", "--build", build)
    return run_watched(build / "train", args.work / "find_package_report")


def make(args):
    work = args.work / "make"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(HERE / "make", work)
    shutil.copy(HERE / "train_program.cpp", args.work)
    shutil.copyfile(args.object, work / "train.o")  # newer than its source: it is linked as it is
    run("make", "-C", work, f"TORCH={args.torch}",
        PKG_CONFIG_PATH=str(args.prefix / args.libdir / "pkgconfig"))
    run_watched(work / "train", args.work / "make_report")


def preload(args):
    """A program that knows nothing of ddpscope, and the installed command."""
    out, tool = args.work / "preload_report", args.prefix / "bin/ddpscope"
    records = run_watched(args.plain, out,
                          LD_PRELOAD=str(args.prefix / args.libdir / "libddpscope_preload.so"))
    demand(any(record["record"] == "step" for record in records), "no step was seen")
    run(tool, "merge", out)
    demand("ddpscope: 0 errors" in run(tool, "show", out), "a verdict was expected")
    launched = args.work / "run_report"
    shutil.rmtree(launched, ignore_errors=True)
    run(tool, "run", "--out", launched, "--", args.plain)
    demand(len(records_of(launched)) > 2, "run did not find the installed library")
    demand("# optim-empty" in run(tool, "explain", "optim-empty"), "explain has no pages")


def run_ranks(args, out, command, shared):
    """The merged report of two ranks that are told so as mpirun tells them."""
    shutil.rmtree(out, ignore_errors=True)
    shared = {**shared, "LD_PRELOAD": str(args.prefix / args.libdir / "libddpscope_preload.so"),
              "DDPSCOPE": f"console=quiet:report_dir={out}", "PMI_SIZE": "2"}
    ranks = [subprocess.Popen(command, env=environment_with({**shared, "PMI_RANK": str(rank)}))
             for rank in range(2)]
    demand([rank.wait(timeout=60) for rank in ranks] == [0, 0], "a rank failed")
    run(args.prefix / "bin/ddpscope", "merge", out)
    return json.loads((out / "report.json").read_text())


def launch(args):
    """Ranks of one launch are one run: by its name, or since one process started them."""
    in_shells = ["sh", "-c", f"{args.plain}; exit $?"]
    for name, command, shared in (("named", in_shells, {"PMIX_NAMESPACE": "19"}),
                                  ("started", [str(args.plain)], {})):
        report = run_ranks(args, args.work / f"{name}_report", command, shared)
        demand(not report["skipped_files"], f"{name}: skipped {report['skipped_files']}")
        demand(len(report["ranks"]) == 2, f"{name}: {len(report['ranks'])} ranks")


def fetch_content(args):
    """Configures a project that adds this tree, and asks for its targets."""
    build = args.work / "fetch_content"
    shutil.rmtree(build, ignore_errors=True)
    run("cmake", "-G", "Ninja", "-S", HERE / "fetch_content", "-B", build,
        f"-DDDPSCOPE_SOURCE={ROOT}", f"-DDDPSCOPE_TORCH_DIR={args.torch}", "-DDDPSCOPE_CUDA=OFF")
    targets = run("ninja", "-C", build, "-t", "targets", "all")
    demand("\ntrain: " in targets and "\nlib/libddpscope.so: " in targets, f"targets: {targets}")
    added = build / "_deps/ddpscope-build"
    own = ("tests", "samples", "benchmarks", "tools")
    extra = [name for name in own if (added / name).exists()]
    demand(not extra, f"configured, too: {extra}")
    rules = (added / "plugin/cmake_install.cmake").read_text()
    demand("libddpscope" not in rules, "the project of a user installs ddpscope")


def packages(args):
    """The packages hold what was installed, and LibTorch is no dependency."""
    run("cpack", "--config", args.build / "CPackConfig.cmake", "-B", args.work / "packages")
    deb = next((args.work / "packages").glob("*.deb"))
    depends = run("dpkg-deb", "--field", deb, "Depends")
    demand("libc6" in depends and "torch" not in depends, f"Depends: {depends}")
    archive = next((args.work / "packages").glob("*.tar.gz"))
    for name, unpack in (("deb", ("dpkg-deb", "-x", deb)), ("tgz", ("tar", "xzf", archive, "-C"))):
        root = args.work / "packages" / name
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        run(*unpack, root)
        tool = next(root.rglob("bin/ddpscope"))
        demand("ddpscope" in run(tool, "version"), "the command does not run")
        files = {path.relative_to(tool.parents[1]) for path in tool.parents[1].rglob("*")}
        first = {path.relative_to(args.prefix) for path in args.prefix.rglob("*")}
        demand(files == first, f"{name} differs from what is installed: {files ^ first}")


def compiled(args):
    """The program of docs/guides/first-hour.md, from its source: its mistake is found."""
    args.object = None
    args.work = args.work / "compiled"
    records = find_package(args)
    found = [record["id"] for record in records if record["record"] == "finding"]
    demand(found == ["module-unregistered"], f"found: {found}")


def main():
    ways = (install, find_package, make, preload, launch, fetch_content, packages, compiled)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=[way.__name__ for way in ways])
    for option in ("build", "torch", "work", "object", "plain", "libdir"):
        parser.add_argument(f"--{option}", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.prefix = args.work / "prefix"
    args.work.mkdir(parents=True, exist_ok=True)
    next(way for way in ways if way.__name__ == args.way)(args)


main()
