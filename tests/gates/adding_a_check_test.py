"""docs/adding-a-check.md says of its example what ci/check_table.py says of it."""

import re
import unittest

import planted

PAGE = (planted.ROOT / "docs/adding-a-check.md").read_text(encoding="utf-8")
TABLE, CHANGES, SAMPLE = "checks/checks.def", "CHANGELOG.md", "samples/digits/expected.txt"
CODE, TEST = "checks/optim_empty.cpp", "tests/checks/optim_empty_test.cpp"
OWN_PAGE = "docs/checks/optim-empty.md"
# Settings are no matter of the page, but the gate wants some.
SETTINGS = ("config/settings.def", "docs/settings.md", "include/ddpscope/ddpscope.h")


class AddingACheck(planted.GateTest):
    gate = ["check_table.py"]

    def setUp(self):
        super().setUp()
        self.copy(CODE, TEST, OWN_PAGE, CHANGES, SAMPLE, *SETTINGS)
        table = (planted.ROOT / TABLE).read_text(encoding="utf-8")
        self.row = re.search(r'^DDPSCOPE_CHECK\("optim-empty".*?\)$', table, re.M | re.S)[0]
        self.plant(TABLE, self.row + "\n")
        self.assert_passes()

    def forget(self, what, name, without=None):
        """Takes a file, or the lines of it that `without` matches, out of the tree."""
        whole = (self.tree / name).read_text(encoding="utf-8")
        self.plant(name, re.sub(without, "", whole) if without else "")
        code, output = self.run_gate()
        self.assertEqual(code, 1, output)
        said = re.sub(r"^\S+:\d+: ", "", output.splitlines()[0])
        self.assertRegex(PAGE, rf"(?m)^\| {what} \| `+{re.escape(said)}`+ \|$")
        self.plant(name, whole)

    def test_each_part_is_asked_for_in_the_words_of_the_page(self):
        self.forget("the code", CODE)
        self.forget("the page", OWN_PAGE)
        self.forget("the test", TEST)
        self.forget("the sample", SAMPLE, r"(?m)^.*optim-empty.*\n")
        self.forget("the entry", CHANGES, r"- `optim-empty`.*\n")
        other = self.row.replace("optim-empty", "optim-other").replace("optim_empty", "optim_other")
        self.plant(TABLE, other)
        self.assertRegex(PAGE, r"\| the row \| `checks/checks.def has no such check` \|")
        self.assert_refuses(f"{OWN_PAGE}:1: checks/checks.def has no such check")

    def test_every_part_is_in_the_list_of_what_to_add_and_edit(self):
        for action, parts in (("add", (CODE, OWN_PAGE, TEST)), ("edit", (TABLE, CHANGES))):
            for part in parts:
                self.assertRegex(PAGE, rf"(?m)^\| {action} \| `{re.escape(part)}`")


if __name__ == "__main__":
    unittest.main()
