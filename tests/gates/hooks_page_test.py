"""ci/check_hooks_page.py refuses a table of layers that is not the one of the build."""

import unittest

import planted

LIST = ('DDPSCOPE_FORWARD(LinearImpl, "_ZN5torch2nn10LinearImpl7forwardERKN2at6TensorE")\n'
        'DDPSCOPE_FORWARD(ReLUImpl, "_ZN5torch2nn8ReLUImpl7forwardEN2at6TensorE")\n')
PAGE = "# Hooks\n\n<!-- layers: written by ci/check_hooks_page.py -->\n<!-- end of layers -->\n"


class HooksPage(planted.GateTest):
    gate = ["check_hooks_page.py"]

    def setUp(self):
        super().setUp()
        self.list = self.plant("forward_list.inc", LIST)
        self.page = self.plant("docs/hooks.md", PAGE)
        self.words = [self.list, "--root", self.tree]

    def write(self):
        code, output = self.run_gate(*self.words, "--write")
        self.assertEqual(code, 0, output)

    def test_accepts_what_it_wrote(self):
        self.write()
        self.assertIn("| `ReLU` | forward |\n", self.page.read_text())
        self.assertIn("| `InstanceNorm2d` | `aten::instance_norm` |\n", self.page.read_text())
        code, output = self.run_gate(*self.words)
        self.assertEqual(code, 0, output)

    def test_refuses_a_layer_that_is_missing(self):
        self.write()
        self.plant("forward_list.inc", LIST + 'DDPSCOPE_FORWARD(FoldImpl, "_ZN")\n')
        self.assert_refuses("docs/hooks.md: | `Fold` | forward |: missing", *self.words)

    def test_refuses_a_layer_that_is_not_built(self):
        self.write()
        self.plant("docs/hooks.md", self.page.read_text().replace("ReLU", "RelU"))
        self.assert_refuses("docs/hooks.md: | `RelU` | forward |: not in this build", *self.words)

    def test_refuses_a_page_without_marks(self):
        self.plant("docs/hooks.md", "# Hooks\n")
        self.assert_refuses("the marks of the table are missing", *self.words)

    def test_is_skipped_without_a_build(self):
        self.list.unlink()
        self.assertEqual(self.run_gate(*self.words)[0], 77)


if __name__ == "__main__":
    unittest.main()
