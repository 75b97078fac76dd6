"""ci/check_style.sh refuses other formatting, a .clang-tidy that lost checks, misnamed members."""

import json
import subprocess
import unittest

import planted

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Style(planted.GateTest):
    gate = ["check_style.sh"]

    def setUp(self):
        super().setUp()
        self.copy(".clang-format", ".clang-tidy")
        self.plant("model/a.cpp", "int f() { return 1; }\n")

    def test_formatted_tree(self):
        self.assert_passes()

    def test_format_of_every_kind_of_source(self):
        for suffix in ("h", "cpp", "c", "cu", "cuh"):
            with self.subTest(suffix):
                path = self.plant(f"model/b.{suffix}", "int  g();\n")
                self.assert_refuses(f"model/b.{suffix}:1:4: error: code should be clang-formatted")
                path.unlink()

    def test_lost_comma(self):
        text = (planted.ROOT / ".clang-tidy").read_text()
        rows = [row for row in text.split("\n") if row.startswith("  ") and row.endswith(",")]
        self.assertGreater(len(rows), 5)
        for row in rows:
            with self.subTest(row):
                self.plant(".clang-tidy", text.replace(row, row[:-1], 1))
                self.assert_refuses(".clang-tidy: ")

    def test_check_that_is_gone(self):
        text = (planted.ROOT / ".clang-tidy").read_text()
        self.plant(".clang-tidy", text.replace("  modernize-use-override,\n", ""))
        self.assert_refuses(".clang-tidy: modernize-use-override is not enabled")

    def test_member_named_step_count(self):
        self.plant("model/a.cpp", "struct Clock {\n  int StepCount = 0;\n};\n")
        self.git_and_commands()
        self.assert_refuses("invalid case style for member 'StepCount'",
                            self.tree, self.tree / "build", EMPTY_TREE)

    def test_well_named_member(self):
        self.plant("model/a.cpp", "struct Clock {\n  int step_count = 0;\n};\n")
        self.git_and_commands()
        self.assert_passes(self.tree, self.tree / "build", EMPTY_TREE)

    def test_build_without_commands(self):
        code, output = self.run_gate(self.tree, self.tree / "build", EMPTY_TREE)
        self.assertEqual((code, "has no compile_commands.json" in output), (2, True), output)

    def test_empty_tree(self):
        (self.tree / "model/a.cpp").unlink()
        code, output = self.run_gate()
        self.assertEqual((code, "read nothing" in output), (2, True), output)

    def git_and_commands(self):
        source = str(self.tree / "model/a.cpp")
        self.plant("build/compile_commands.json", json.dumps(
            [{"directory": str(self.tree), "command": f"c++ -c {source}", "file": source}]))
        subprocess.run(["git", "init", "-q", str(self.tree)], check=True)
        subprocess.run(["git", "-C", str(self.tree), "add", "model"], check=True)


if __name__ == "__main__":
    unittest.main()
