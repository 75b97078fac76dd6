"""ci/check_table.py refuses rows of the tables that lack what they promise."""

import unittest

import planted

TREE = {
    "checks/checks.def":
        'DDPSCOPE_CHECK("a-b", a_b, kError, kWatch, "tree",\n'
        '               "Finds what is "\n               "wrong.")\n'
        'DDPSCOPE_TOOL_CHECK("tool-c", tool_c, kNote, kWatch, "", "Finds what did not run.")\n',
    "checks/a_b.cpp": "std::unique_ptr<Check> make_a_b() {}\n",
    "docs/checks/a-b.md":
        "# a-b\n\nFinds what is\nwrong.\n\nSeverity: error. Cost: none.\n\n[a-b]\n",
    "docs/checks/tool-c.md": "# tool-c\n\nFinds what did not run.\n\nSeverity: note.\n\n[tool-c]\n",
    "tests/checks/a_b_test.cpp": 'TEST_CASE("a-b fires") {}\n',
    "tests/report/merge_test.cpp": 'TEST_CASE("tool-c") {}\n',
    "samples/digits/expected.txt": "# bug id\nplanted  a-b  error\n",
    "CHANGELOG.md": "- `a-b`: Finds what is\n  wrong.\n",
    "config/settings.def": 'DDPSCOPE_SETTING("level", level, Choice, "x", "One of a|b.")\n'
                           'DDPSCOPE_SETTING("depth", depth, Frames, 32, "Frames kept.")\n',
    "docs/settings.md":
        "| `level` | one | `x` | One of a\\|b. |\n| `depth` | n | `32` | Frames kept. |\n",
    "include/ddpscope/ddpscope.h": "  std::optional<std::string> level{};\n"
                                   "  std::optional<std::int64_t> depth{};\n",
    "README.md": "`DDPSCOPE=level=a:depth=3`, `DDPSCOPE=0`, `DDPSCOPE=a-b.limit=3`\n",
}


class Table(planted.GateTest):
    gate = ["check_table.py"]

    def setUp(self):
        super().setUp()
        for name, text in TREE.items():
            self.plant(name, text)
        self.assert_passes()

    def replaced(self, name, before, after):
        self.assertIn(before, TREE[name])
        self.plant(name, TREE[name].replace(before, after))

    def refuse_without(self, name, message):
        (self.tree / name).unlink()
        self.assert_refuses(message)
        self.plant(name, TREE[name])

    def test_missing_parts_of_a_check(self):
        at = "checks/checks.def:1: a-b has no "
        self.refuse_without("docs/checks/a-b.md", at + "page docs/checks/a-b.md")
        self.refuse_without("checks/a_b.cpp", at + "checks/a_b.cpp with make_a_b")
        self.refuse_without("tests/checks/a_b_test.cpp", at + "test tests/checks/a_b_test.cpp")
        self.refuse_without("samples/digits/expected.txt", at + "row in an expected.txt")
        self.refuse_without("CHANGELOG.md",
                            at + "entry in CHANGELOG.md: - `a-b`: Finds what is wrong.")
        self.refuse_without("tests/report/merge_test.cpp",
                            "checks/checks.def:4: no test names tool-c")
        self.assert_passes()

    def test_parts_that_name_another_check(self):
        self.replaced("samples/digits/expected.txt", "a-b", "a-b-c")
        self.assert_refuses("a-b has no row in an expected.txt")
        self.replaced("samples/digits/expected.txt", "planted  a-b", "# planted  a-b")
        self.assert_refuses("a-b has no row in an expected.txt")
        self.plant("samples/digits/expected.txt", TREE["samples/digits/expected.txt"])
        self.replaced("tests/checks/a_b_test.cpp", "a-b", "b-a")
        self.assert_refuses("a-b has no test tests/checks/a_b_test.cpp that names it")

    def test_pages_that_say_something_else(self):
        for name, before, after, message in (
                ("a-b", "# a-b", "# a-c", "a-b.md:1: the title is not a-b"),
                ("a-b", "is\nwrong", "is right", "a-b.md:3: the first sentence is not the summary"),
                ("a-b", "error", "errors", "a-b.md:5: the severity of the table is error"),
                ("a-b", "[a-b]", "[a-c]", "a-b.md:1: no report that ends in [a-b]"),
                ("tool-c", "note", "warning", "tool-c.md:5: the severity of the table is note")):
            with self.subTest(message):
                self.replaced(f"docs/checks/{name}.md", before, after)
                self.assert_refuses("docs/checks/" + message)
                self.plant(f"docs/checks/{name}.md", TREE[f"docs/checks/{name}.md"])

    def test_page_without_a_check(self):
        self.plant("docs/checks/d.md", "# d\n")
        self.assert_refuses("docs/checks/d.md:1: checks/checks.def has no such check")

    def test_doubled_id_and_wrong_name(self):
        rows = TREE["checks/checks.def"]
        self.plant("checks/checks.def", rows + rows.split("DDPSCOPE_TOOL")[0])
        self.assert_refuses("checks/checks.def:1: a-b is there twice")
        self.replaced("checks/checks.def", " a_b,", " a_c,")
        self.assert_refuses("checks/checks.def:1: a_c is not a-b with underscores")

    def test_setting_that_the_page_says_otherwise(self):
        self.replaced("docs/settings.md", "Frames kept.", "Frames.")
        self.assert_refuses("config/settings.def:2: docs/settings.md has no row that says of depth")
        self.plant("docs/settings.md", TREE["docs/settings.md"] + "| `width` | n | `1` | W. |\n")
        self.assert_refuses("docs/settings.md:3: config/settings.def has no key width")

    def test_options_without_a_setting(self):
        self.replaced("include/ddpscope/ddpscope.h", " depth{}", " width{}")
        self.assert_refuses("ddpscope.h:2: config/settings.def has no key width")
        self.assert_refuses("not the keys of config/settings.def in order; missing: depth")

    def test_doubled_key_and_wrong_member(self):
        self.replaced("config/settings.def", '"depth"', '"level"')
        self.assert_refuses("config/settings.def:1: level is there twice")
        self.assert_refuses("config/settings.def:1: the member depth is not named level")

    def test_setting_that_a_page_makes_up(self):
        self.plant("README.md", "\n$ DDPSCOPE=depth=3:widht=4 ./train\n")
        self.assert_refuses("README.md:2: widht: config/settings.def has no such key")
        self.plant("README.md", "`DDPSCOPE=maybe`, `DDPSCOPE=no.limit=1`\n")
        self.assert_refuses("README.md:1: maybe: ")
        self.assert_refuses("README.md:1: no.limit: ")

    def test_tree_without_tables(self):
        (self.tree / "config/settings.def").unlink()
        code, output = self.run_gate()
        self.assertEqual((code, "read nothing" in output), (2, True), output)


if __name__ == "__main__":
    unittest.main()
