#!/usr/bin/env python3
"""Lists the operators that write an argument, those that return several views, and those that read
several tensors and make new ones, from the headers of the LibTorch in use.

usage: gen_operators.py --nm NM --lib LIBTORCH_CPU --headers ATEN_OPS_FOLDER --out DIR
"""
import argparse
import pathlib
import re

from gen_gate import exported

# They write no values: what backward reads afterwards is what forward saw.
VALUES_STAY = {"requires_grad_", "retain_grad", "rename_", "detach_", "set_data"}
# names.def has them; what they call is seen.
HOOKED = {"dropout_", "alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_",
          "batch_norm", "instance_norm"}
# The same, by overload: these are looked at for what they read (hooks/range_ops.cpp,
# hooks/judged_outputs.cpp, hooks/convolution_watch.cpp, hooks/training_ops.cpp and
# hooks/wait_ops.cpp).
HOOKED_OVERLOADS = {"_batch_norm_impl_index", "cross_entropy_loss", "nll_loss", "nll_loss2d",
                    "nll_loss_nd", "binary_cross_entropy", "binary_cross_entropy_with_logits",
                    "embedding", "one_hot", "gather", "index_select", "scatter_add", "scatter.src",
                    "scatter.value", "convolution", "masked_select", "kl_div",
                    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "eq.Tensor"}
# Called by backward and by optimizers.
NO_FORWARD = re.compile(r"_foreach_|.*_backward")


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


def argument_types(schema):
    return [argument.rsplit(maxsplit=1)[0] for argument in schema_arguments(schema)]


def written(schema):
    """Positions of the arguments that the schema marks, as in `Tensor(a!) self`."""
    return [i for i, kind in enumerate(argument_types(schema)) if "!" in kind]


def reads_several(schema):
    """Whether the operator reads more than one tensor and returns one."""
    tensors = [kind for kind in argument_types(schema) if kind.startswith("Tensor")]
    several = len(tensors) > 1 or any("[" in kind for kind in tensors)
    return several and "Tensor" in schema.rsplit("->", 1)[1]


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


def listed(name, schema, symbol):
    """The list that an operator belongs to and its line there; None where nothing looks at it."""
    full = schema.split("(")[0]
    places = ", ".join(map(str, written(schema)))
    if full.split(".")[0] in VALUES_STAY | HOOKED or full in HOOKED_OVERLOADS:
        return None
    if places:
        return "writer", f'DDPSCOPE_WRITER({name}, "{full}", "{symbol}", {places})\n'
    if schema.endswith("-> Tensor(a)[]"):
        return "view", f'DDPSCOPE_VIEWS({name}, "{full}", "{symbol}")\n'
    if reads_several(schema) and not NO_FORWARD.match(full):
        return "reader", f'DDPSCOPE_READER({name}, "{symbol}")\n'
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--lib", required=True)
    parser.add_argument("--headers", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    symbol_of = calls(exported(args.nm, args.lib))
    lines = {kind + part: {} for kind in ("writer", "view", "reader")
             for part in ("_list.inc", "_headers.inc")}
    names = lines["operator_names.def"] = {}
    for path in sorted(args.headers.glob("*_ops.h")):
        for name, schema in operators(path.read_text()):
            symbol = symbol_of.get(name)
            found = listed(name, schema, symbol) if symbol else None
            if found is None:
                continue
            kind, line = found
            lines[f"{kind}_list.inc"][line] = None
            lines[f"{kind}_headers.inc"][f"#include <ATen/ops/{path.name}>\n"] = None
            names[f"torch_cpu {symbol}\n"] = None
    args.out.mkdir(parents=True, exist_ok=True)
    for file, unique in lines.items():
        (args.out / file).write_text("".join(unique))


if __name__ == "__main__":
    main()
