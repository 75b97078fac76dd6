"""ci/check_docs.py refuses pages that name what is not there, one page per fault."""

import unittest

import planted


PAGE = """# grad-missing

## Report
    rank 0 step 4 head: warning: 2 parameters got no gradient [grad-missing]
      why: no operator read them
      fix: (likely) call it
      see: ddpscope explain grad-missing
"""


class Docs(planted.GateTest):
    gate = ["check_docs.py"]

    def setUp(self):
        super().setUp()
        self.plant("README.md", "# ddpscope\n")
        self.plant("docs/settings.md",
                   "# Settings\n## The variable `DDPSCOPE`\n```\n# No heading\n```\n")
        self.plant("docs/checks/grad-missing.md", PAGE)
        self.plant("checks/checks.def", 'DDPSCOPE_CHECK("grad-missing", grad_missing, kError)\n')
        self.plant("tools/commands.def", 'DDPSCOPE_COMMAND(explain, "Print the page of a check")\n')
        self.plant("scripts/demo.sh", "exit 0\n").chmod(0o755)
        self.plant("report/escape.h", "")

    def refuse(self, text, fault, name="README.md"):
        with self.subTest(text):
            self.plant(name, "\n" + text + "\n")
            self.assert_refuses(f"{name}:2: {fault}")

    def accept(self, text, name="README.md"):
        with self.subTest(text):
            self.plant(name, "\n" + text + "\n")
            self.assert_passes()

    def test_dead_links(self):
        self.accept("[settings](docs/settings.md), [here](#), [web](https://ddpscope.example/x)")
        self.accept("[up](../README.md) [checks](checks)", "docs/report.md")
        self.refuse("[settings](docs/setings.md)", "docs/setings.md: there is no docs/setings.md")
        self.refuse("![settings](settings.md)", "settings.md: there is no settings.md")
        self.refuse("[read](README.md)", "README.md: there is no docs/README.md", "docs/x.md")

    def test_dead_anchors(self):
        self.accept("[variable](docs/settings.md#the-variable-ddpscope)")
        self.accept("# A b: `c`\n[above](#a-b-c)")
        self.refuse("[variable](docs/settings.md#variable)",
                    "docs/settings.md#variable: docs/settings.md has no heading #variable")
        self.refuse("[fence](docs/settings.md#no-heading)", "docs/settings.md#no-heading: ")
        self.refuse("[below](#below)", "#below: README.md has no heading #below")

    def test_links_in_code_are_code(self):
        self.accept("```cpp\nvalues[at](position);\n```\n`values[at](position)`")

    def test_paths_in_backticks(self):
        self.accept("`report/`, `report/escape.{h,cpp}`, `docs/checks/<id>.md`")
        self.accept("`report/escape.h:7`, `build/dev/x`, `out/report.html`")
        self.refuse("see `report/escapes.h`", "report/escapes.h: not in this repository")
        self.refuse("`cat report/*.cpp`", "report/*.cpp: not in this repository")
        self.refuse("`docs/<id>.txt`", "docs/<id>.txt: not in this repository")

    def test_span_over_two_lines(self):
        self.accept("`ctest\n--test-dir x` runs report/nothing and `report/escape.h`")

    def test_scripts(self):
        self.accept("```console\n$ scripts/demo.sh   # builds\n```")
        self.refuse("runs `scripts/demos.sh`", "scripts/demos.sh: not in this repository")
        self.plant("README.md", "```console\n$ scripts/demos.sh\n```\n")
        self.assert_refuses("README.md:2: scripts/demos.sh: not in this repository")
        (self.tree / "scripts/demo.sh").chmod(0o644)
        self.refuse("`scripts/demo.sh`", "scripts/demo.sh: cannot be run")

    def test_commands(self):
        self.accept("`ddpscope explain ID`; ddpscope watches; `namespace ddpscope {`")
        self.refuse("`ddpscope explane ID`", "ddpscope explane: no such command")

    def test_ids(self):
        self.accept("`grad-missing`, `kebab-case`\n    see: ddpscope explain grad-missing")
        self.refuse("`grad-misssing`", "grad-misssing: no such check")
        self.refuse("    see: ddpscope explain grad-lost", "ddpscope explain grad-lost: no such")

    def test_report_of_a_check(self):
        page = "docs/checks/grad-missing.md"
        self.assert_passes()
        for line in PAGE.splitlines()[3:]:
            with self.subTest(line):
                self.plant(page, PAGE.replace(line + "\n", ""))
                self.assert_refuses(f"{page}:4: the report has no line like: ")
        self.plant(page, PAGE.replace("[grad-missing]", "[grad-lost]"))
        self.assert_refuses(f"{page}:4: the report has no line like: ")
        self.plant(page, "# grad-missing\n")
        self.assert_refuses(f"{page}:1: no report of grad-missing below ## Report")
        self.plant("docs/checks/other.md", "# No check\n")
        self.plant(page, PAGE)
        self.assert_passes()

    def test_places_on_one_machine(self):
        self.accept("network/root/x, <root>/x, a/tmp/b")
        self.refuse("lies in /tmp/out", "/tmp/: a place on one machine")

    def test_quotes(self):
        self.plant("checks/a.cpp", "int one;\nint two;\n  int three;\nint four;\n")
        quote = "```cpp checks/a.cpp\n%s```"
        self.accept(quote % "int two;\n  int three;\n")
        self.accept(quote % "int one;\n...\nint four;\n")
        self.accept("```cpp\nint five;\n```")
        self.refuse(quote % "int five;\n", "checks/a.cpp does not say: int five;")
        self.refuse(quote % "int two;\nint three;\n", "checks/a.cpp does not say: int three;")
        self.refuse(quote % "int one;\n  int three;\n", "checks/a.cpp does not say: int one;")
        self.refuse(quote % "int four;\n...\nint one;\n", "checks/a.cpp does not say: int one;")
        self.refuse("```cpp checks/b.cpp\n```", "checks/b.cpp: not in this repository")

    def test_empty_tree(self):
        empty = self.tree / "empty"
        empty.mkdir()
        code, output = self.run_gate(empty)
        self.assertEqual((code, "read nothing" in output), (2, True), output)


if __name__ == "__main__":
    unittest.main()
