"""The expected findings of a sample's mistakes, as its expected.txt lists them, and those of a
report in the same form. Columns that are named after sites hold what is remarked in the source at
the line of each, so that lines may move."""
import pathlib
import re
import sys

MEMBERS = ("id", "severity", "module_path", "subject", "op", "model", "first_step")
SITES = ("saved", "created", "changed", "used", "called", "registered")
NO_LINE = "no line"
# The sample ends on what was thrown.
THROWN = {"module-operator-failed", "autograd-inplace-saved", "autograd-multiview-inplace",
          "autograd-leaf-inplace", "autograd-double-backward", "norm-buffer-overwritten",
          "loss-target-range", "norm-batch-of-one", "device-mismatch",
          "norm-syncbn-calls-differ"}
FIRST_FAILURE = "rank-first-failure"
# More threads than cores, and how long calls wait: on which ranks depends on the machine.
OF_THE_MACHINE = {"perf-thread-oversubscription", "perf-small-collectives"}
# What is judged over all ranks names those that differ.
OVER_RANKS = {FIRST_FAILURE, "collective-hang", "collective-mismatch", "norm-syncbn-calls-differ",
              "data-same-on-ranks", "grad-reduced-wrong-scale", "rank-rng-same",
              "grad-unused-rank-differs", "rank-buffers-differ",
              "rank-model-differs", "rank-optimizer-differs", "rank-parameters-differ",
              "rank-step-lag", "perf-straggler", "loss-rank-weights"}
OF_SEVERAL_RANKS = OVER_RANKS | {"autograd-ready-twice", "norm-local-batch-stats",
                                 "perf-small-collectives", "collective-multi-tensor",
                                 "grad-not-reduced", "grad-accumulation-unsynced",
                                 "grad-used-while-reducing", "clip-before-reduce",
                                 "data-not-reshuffled", "loss-gathered-no-gradient"}
# Their consequences depend on timing.
RACES = {"grad-used-while-reducing"}
# What follows where ranks part, and hang or fail.
CONSEQUENCES = {"collective-hang", "collective-mismatch", "module-operator-failed", FIRST_FAILURE,
                "rank-parameters-differ", "rank-step-lag"}
# The tests train on the host, where nothing waits for a device.
OF_A_DEVICE = {"perf-sync-calls", "device-duplicate", "device-foreign-allocation"}


def read_table(file):
    """The names of the columns, and the expected findings of each mistake."""
    columns, table = [], {"none": []}
    for line in file.read_text().splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if line.startswith("# bug "):
            columns = ["bug"] + words[1:]
        elif line.strip() and not line.startswith("#"):
            if len(words) != len(columns):
                sys.exit(f"{file}: not {len(columns)} columns: {line}")
            row = tuple("" if word == "-" else word for word in words[1:])
            table.setdefault(words[0], []).append(row)
    return columns[1:], table


def expected_on(ranks, rows):
    absent = OF_A_DEVICE if ranks > 1 else OF_A_DEVICE | OF_SEVERAL_RANKS
    return sorted(row for row in rows if row[0] not in absent)


def beyond_consequences(expected, rows):
    """What is wrong with these rows of ranks that parted; empty if nothing is."""
    absent = set(expected) - set(rows)
    other = {row[0] for row in rows} - {row[0] for row in expected} - CONSEQUENCES
    return (f"{sorted(absent)} not among {rows}" if absent else "") + (
        f"besides, {other} are reported" if other else "")


def throws(rows):
    """Whether the sample ends on what was thrown, in every rank."""
    return any(row[0] in THROWN or row[:2] == ("grad-missing", "error") for row in rows)


def remark(site, folder):
    """What is remarked at the line of the program's own first frame."""
    own = next((frame for frame in site["frames"] if not frame["library"]), None)
    if own is None or own["line"] == 0:
        return NO_LINE
    file = pathlib.Path(own["file"])
    if file.parent != folder:
        return f"{file}:{own['line']}"
    lines = [line.partition("//")[2].strip() for line in file.read_text().splitlines()]
    text = lines[own["line"] - 1]
    return text if lines.count(text) == 1 else f"{file.name}:{own['line']} {text}"


def cause_of(finding, findings):
    """The id of the finding that explains this one."""
    cause = finding["caused_by"]
    return next((other["id"] for other in findings if other["fingerprint"] == cause), "")


def ranks_of(finding):
    """Mistakes of one rank are planted on rank 1."""
    if finding["ranks"] == [1]:
        return "rank 1"
    return "all" if 1 in finding["ranks"] else "the others"


def cell(finding, column, findings, folder):
    if column in MEMBERS:
        return str(finding[column])
    if column == "ranks":
        return ranks_of(finding)
    if column == "caused_by":
        return cause_of(finding, findings)
    if column in SITES:
        sites = [site for site in finding["sites"] if site["role"] == column]
        return "; ".join(remark(site, folder) for site in sites)
    return finding["facts"].get(column, "")


def found_rows(findings, ranks, columns, folder, expected):
    """The findings above a note, and notes that are expected. Each must be of all ranks, but a
    consequence and what ends a rank may show where only some ranks go."""
    notes = {row[0] for row in expected if row[1] == "note"}
    rows = []
    for finding in findings:
        is_expected = finding["id"] in {row[0] for row in expected}
        if finding["severity"] == "note" and finding["id"] not in notes:
            continue
        if finding["id"] in OF_THE_MACHINE and not is_expected:
            continue
        if RACES & {row[0] for row in expected} and finding["caused_by"] is not None:
            continue
        row = tuple(cell(finding, column, findings, folder) for column in columns)
        rows.append(row)
        is_of_some = finding["caused_by"] is not None or finding["id"] in THROWN | OVER_RANKS
        is_of_some = is_of_some or ("ranks" in columns and ranks_of(finding) != "all")
        if not is_of_some and sorted(finding["ranks"]) != list(range(ranks)):
            sys.exit(f"{row} is reported for the ranks {finding['ranks']} of {ranks}")
    return sorted(rows)


def compare(what, expected, found):
    for row in expected:
        print("expected", row)
    for row in found:
        print("found   ", row)
    if found != expected:
        sys.exit(f"the findings differ {what}")
