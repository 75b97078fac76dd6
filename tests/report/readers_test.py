#!/usr/bin/env python3
"""Reads the approved reports with programs that are not ours: SARIF, JUnit, the trace, metrics."""

import collections
import json
import pathlib
import sys

golden = pathlib.Path(sys.argv[1])
try:
    import junitparser
    import prometheus_client.parser
    import sarif_pydantic
except ImportError as error:
    print(f"skipped: {error}; ci/install_readers.sh installs the readers")
    sys.exit(77)


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r} instead of {wanted!r}")


def read_sarif():
    text = (golden / "report.sarif").read_text()
    run = sarif_pydantic.Sarif.model_validate_json(text).runs[0]
    first = run.results[0]
    report = json.loads((golden / "report.json").read_text())
    expect("results", [result.rule_id for result in run.results],
           [finding["id"] for finding in report["findings"]])
    expect("rule", run.tool.driver.rules[first.rule_index].id, first.rule_id)
    location = first.locations[0].physical_location
    expect("file", location.artifact_location.uri, "src/ddp.cpp")
    expect("line", location.region.start_line, 41)
    flow = first.code_flows[0].thread_flows[0].locations
    expect("flow", [step.location.physical_location.region.start_line for step in flow], [88, 41])
    expect("fingerprint", first.partial_fingerprints, {"ddpscope/v1": "00c0ffee00c0ffee"})


def read_junit():
    suites = junitparser.JUnitXml.fromfile(str(golden / "report.junit.xml"))
    kinds = collections.Counter(type(result).__name__ for suite in suites for case in suite
                                for result in case.result)
    expect("results", kinds, {"Failure": suites.failures, "Skipped": suites.skipped})
    expect("cases", sum(len(list(suite)) for suite in suites), suites.tests)


def read_trace():
    """The rules of the format: every event has its members, slices of one track do not overlap."""
    ends = {}
    for event in json.loads((golden / "trace.json").read_text())["traceEvents"]:
        missing = {"X": {"ts", "dur", "tid"}, "C": {"ts", "args"}, "i": {"ts", "s"},
                   "M": {"args"}}[event["ph"]] - event.keys()
        expect(f"missing in {event}", missing, set())
        if event["ph"] == "X" and event["tid"] == 1:
            track = event["pid"]
            expect("overlap", event["ts"] >= ends.get(track, 0), True)
            ends[track] = event["ts"] + event["dur"]
    expect("ranks with steps", sorted(ends), [0, 1])


def read_metrics():
    text = (golden / "metrics.prom").read_text()
    families = {family.name: family
                for family in prometheus_client.parser.text_string_to_metric_families(text)}
    expect("kinds", {family.type for family in families.values()}, {"counter", "gauge"})
    steps = families["ddpscope_steps"].samples[0]
    expect("steps", (steps.name, steps.value), ("ddpscope_steps_total", 12))
    findings = {(sample.labels["id"], sample.labels["severity"]): sample.value
                for sample in families["ddpscope_findings"].samples}
    expect("findings", findings, {("optim-empty", "error"): 2, ("perf-sync-calls", "note"): 1})
    for family in families.values():
        for sample in family.samples:
            expect(sample.name, (sample.labels["rank"], sample.labels["run_id"]), ("1", "run-a"))


read_sarif()
read_metrics()
read_junit()
read_trace()
