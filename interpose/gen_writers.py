#!/usr/bin/env python3
"""Lists the operators that write an argument, and those that return several views, from the
headers of the LibTorch in use.

usage: gen_writers.py --nm NM --lib LIBTORCH_CPU --headers ATEN_OPS_FOLDER --out DIR
"""
import argparse
import pathlib
import re

from gen_gate import exported

# They write no values: what backward reads afterwards is what forward saw.
VALUES_STAY = {"requires_grad_", "retain_grad", "rename_", "detach_", "set_data"}
# names.def has them; what they call is seen.
HOOKED = {"dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_"}


def top_level(text):
    """`text` split at commas that no bracket encloses."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([<{") - (char in ")]>}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def schema_arguments(schema):
    begin = schema.index("(")
    depth = 0
    for end in range(begin, len(schema)):
        depth += (schema[end] == "(") - (schema[end] == ")")
        if depth == 0:
            return [a for a in top_level(schema[begin + 1:end]) if a != "*"]
    raise ValueError(schema)


def written(schema):
    """Positions of the arguments that the schema marks, as in `Tensor(a!) self`."""
    types = (argument.rsplit(maxsplit=1)[0] for argument in schema_arguments(schema))
    return [i for i, kind in enumerate(types) if "!" in kind]


def operators(header):
    """(C++ name, schema) of each operator that a header declares."""
    for name, body in re.findall(r"struct TORCH_API (\w+) \{(.*?)\n\};", header, re.S):
        yield name, re.search(r'schema_str = "((?:[^"\\]|\\.)*)"', body)[1]


def calls(symbols):
    """Mangled name of `at::_ops::NAME::call` by NAME."""
    found = {}
    for symbol in symbols:
        match = re.match(r"_ZN2at4_ops(\d+)(\w+)", symbol)
        if match and match[2][int(match[1]):].startswith("4callE"):
            found[match[2][:int(match[1])]] = symbol
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--lib", required=True)
    parser.add_argument("--headers", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    symbol_of = calls(exported(args.nm, args.lib))
    args.out.mkdir(parents=True, exist_ok=True)
    includes, writers, views, names = [], [], [], []
    for path in sorted(args.headers.glob("*_ops.h")):
        for name, schema in operators(path.read_text()):
            full, symbol = schema.split("(")[0], symbol_of.get(name)
            places = written(schema)
            if symbol is None or full.split(".")[0] in VALUES_STAY | HOOKED:
                continue
            if places:
                at = ", ".join(map(str, places))
                writers.append(f'DDPSCOPE_WRITER({name}, "{full}", "{symbol}", {at})\n')
            elif schema.endswith("-> Tensor(a)[]"):
                views.append(f'DDPSCOPE_VIEWS({name}, "{full}", "{symbol}")\n')
            else:
                continue
            names.append(f"torch_cpu {symbol}\n")
            includes.append(f"#include <ATen/ops/{path.name}>\n")
    for file, lines in (("op_headers.inc", dict.fromkeys(includes)), ("writer_list.inc", writers),
                        ("view_list.inc", views), ("writer_names.def", names)):
        (args.out / file).write_text("".join(lines))


if __name__ == "__main__":
    main()
