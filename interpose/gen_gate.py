#!/usr/bin/env python3
"""Writes the gate's assembly, its version script and the lists of builtin forwards.

usage: gen_gate.py --nm NM --lib KEY=FILE... --names names.def... --out DIR     (x86-64)
"""
import argparse
import pathlib
import re
import subprocess
import sys

STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OWN = ["ddpscope_gate_hook", "ddpscope_gate_slot", "ddpscope_gate_entry"]
SAVED = ["rax", "rdi", "rsi", "rdx", "rcx", "r8", "r9", "r10"]


def exported(nm, library):
    """The function symbols that `library` defines, without their versions."""
    lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    fields = (line.split() for line in lines)
    return {f[-1].split("@")[0] for f in fields if len(f) == 3 and f[1] in "TWi"}


def wanted(names_file, libraries):
    """Symbols of `libraries` that a line of the file asks for; warns of a line that none has."""
    found = set()
    for number, line in enumerate(names_file.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        key, pattern = line.split(maxsplit=1)
        if key == "any":  # of a library that need not be here
            found.add(pattern)
        if key not in libraries:
            continue
        hits = {pattern} & libraries[key]
        if not hits:
            spelled = re.compile(re.sub(r"(?<=[EK])S(?=N2at|$)", STRING, pattern))
            hits = {s for s in libraries[key] if spelled.fullmatch(s)}
        if not hits:
            print(f"{names_file}:{number}: warning: this LibTorch exports no {pattern}",
                  file=sys.stderr)
        found |= hits
    return found


def entries(symbols):
    for i, symbol in enumerate(symbols):
        yield from (f".globl {symbol}", f".type {symbol},@function", f"{symbol}:", f"e{i}:",
                    " endbr64", f" jmp *ddpscope_gate_slots+{8 * i}(%rip)",
                    f".size {symbol},.-{symbol}",
                    f"r{i}: endbr64", f" push ${i}", " jmp first_call")


def first_call():
    """Keeps every argument register, asks for the target, leaves no frame behind."""
    yield "first_call:"
    yield from (f" push %{r}" for r in SAVED)
    yield " sub $128,%rsp"
    yield from (f" movups %xmm{k},{16 * k}(%rsp)" for k in range(8))
    yield from (" mov 192(%rsp),%rdi", " call ddpscope_gate_resolve", " mov %rax,%r11")
    yield from (f" movups {16 * k}(%rsp),%xmm{k}" for k in range(8))
    yield " add $128,%rsp"
    yield from (f" pop %{r}" for r in reversed(SAVED))
    yield from (" add $8,%rsp", " jmp *%r11")


def table(name, values, section):
    yield from (section, " .balign 8", f".globl {name}", f".hidden {name}", f"{name}:")
    yield from (f" .quad {value}" for value in values)


def assembly(symbols):
    count = range(len(symbols))
    relocated = '.section .data.rel.ro,"aw"'
    yield ".text"
    yield from entries(symbols)
    yield from first_call()
    yield from table("ddpscope_gate_slots", (f"r{i}" for i in count), ".data")
    yield from (".section .rodata", *(f'n{i}: .asciz "{s}"' for i, s in enumerate(symbols)))
    yield from table("ddpscope_gate_names", (f"n{i}" for i in count), relocated)
    yield from table("ddpscope_gate_entries", (f"e{i}" for i in count), relocated)
    yield from table("ddpscope_gate_count", [len(symbols)], ".section .rodata")
    yield '.section .note.GNU-stack,"",%progbits'


def forwards(symbols):
    """One line per builtin layer: the class whose forward it is, and the function's symbol."""
    layer = r"_ZN5torch2nn\d+(?:\w+?ILm\dENS0_\d+)?([A-Z]\w*Impl)(?:EE)?7forwardE\w+"
    matches = ((re.fullmatch(layer, symbol), symbol) for symbol in symbols)
    yield from sorted(f'DDPSCOPE_FORWARD({match[1]}, "{symbol}")'
                      for match, symbol in matches if match)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--lib", action="append", required=True)
    parser.add_argument("--names", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    pairs = (lib.split("=", 1) for lib in args.lib)
    libraries = {key: exported(args.nm, file) for key, file in pairs}
    symbols = sorted(set().union(*(wanted(names, libraries) for names in args.names)))
    args.out.mkdir(parents=True, exist_ok=True)
    exports = "".join(f"    {s};\n" for s in OWN + symbols)
    (args.out / "gate.S").write_text("\n".join(assembly(symbols)) + "\n")
    (args.out / "gate.map").write_text("{\n  global:\n" + exports + "  local: *;\n};\n")
    (args.out / "gate_names.txt").write_text("\n".join(sorted(OWN + symbols)) + "\n")
    (args.out / "forward_list.inc").write_text("\n".join(forwards(symbols)) + "\n")


if __name__ == "__main__":
    main()
