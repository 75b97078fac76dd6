"""ci/check_sizes.py refuses each thing that is too large and passes what is just small enough."""

import unittest

import planted


def function(lines, head="int long_one()"):
    return head + " {\n" + "  call();\n" * (lines - 2) + "}\n"


class Sizes(planted.GateTest):
    gate = ["check_sizes.py"]

    def test_file_of_301_lines(self):
        self.plant("model/a.h", "\n" * 300)
        self.assert_passes()
        self.plant("model/a.h", "\n" * 301)
        self.assert_refuses("model/a.h: 301 lines, 300 are allowed")

    def test_check_of_151_lines(self):
        self.plant("checks/checks.def", 'DDPSCOPE_CHECK("a-b", a_b, kError, "x", "S.")\n')
        self.plant("checks/a_b.cpp", "\n" * 151)
        self.plant("checks/helper.cpp", "\n" * 151)
        self.assert_refuses("checks/a_b.cpp: 151 lines, 150 are allowed\ncheck_sizes: 2 read, 1 ")

    def test_page_of_61_lines(self):
        self.plant("docs/checks/a-b.md", "\n" * 61)
        self.assert_refuses("docs/checks/a-b.md: 61 lines, 60 are allowed")

    def test_line_of_101_columns(self):
        self.plant("model/a.h", "x" * 100 + "\n")
        self.assert_passes()
        self.plant("model/a.h", "\n" + "x" * 101 + "\n")
        self.assert_refuses("model/a.h:2: 101 columns, 100 are allowed")

    def test_tables_have_no_limits(self):
        self.plant("model/a.h", "\n")
        self.plant("config/settings.def", ("x" * 200 + "\n") * 400)
        self.assert_passes()

    def test_function_of_41_lines(self):
        around = "namespace a {{\nclass B : public C {{\n public:\n{}}};\n}}  // namespace a\n"
        for head in ("int f()", "B() : c_(1), d_{2}", "void g() const override",
                     "auto h(int a = 2) -> int", "bool operator==(const B& b) const",
                     "template <class T = int>\nT i()", "B& operator()(int) noexcept"):
            with self.subTest(head):
                lines = 40 - head.count("\n")
                self.plant("model/a.h", around.format(function(lines, head)))
                self.assert_passes()
                self.plant("model/a.h", around.format(function(lines + 1, head)))
                self.assert_refuses("model/a.h:4: function of 41 lines, 40 are allowed")

    def test_braces_in_literals_and_macros_are_no_blocks(self):
        self.plant("model/a.cpp", "#define OPEN {\n" + function(20, "int f()").replace(
            "call();", "call(\"{\", '{', R\"({)\");  // {", 3) + function(41))
        self.assert_refuses("model/a.cpp:22: function of 41 lines, 40 are allowed")

    def test_long_tables_in_code_are_no_functions(self):
        self.plant("model/a.cpp",
                   "const std::array kA = std::to_array({\n" + "f(),\n" * 60 + "});\n"
                   "constexpr int kB[] = {\n" + "1,\n" * 60 + "};\n")
        self.assert_passes()

    def test_kernel_of_81_lines(self):
        head = "__global__ void kernel()"
        self.plant("cuda/a.cu", function(80, head))
        self.assert_passes()
        self.plant("cuda/a.cu", function(81, head))
        self.assert_refuses("cuda/a.cu:1: function of 81 lines, 80 are allowed")

    def test_six_parameters(self):
        self.plant("model/a.h", "void f(int a, std::map<int, int> b, int c, int d, int e) {\n}\n")
        self.assert_passes()
        self.plant("model/a.h", "void f(int a, int b, int c, int d, int e,\n  int f) {\n}\n")
        self.assert_refuses("model/a.h:1: 6 parameters, 5 are allowed")

    def test_allow_list(self):
        self.plant("model/a.h", "\n" * 301)
        self.plant("ci/sizes_allowed.txt", "model/a.h | 301 lines | a reason\n")
        self.assert_passes()
        self.plant("ci/sizes_allowed.txt", "model/a.h | 301 lines |\n")
        self.assert_refuses("ci/sizes_allowed.txt:1: no reason beside model/a.h")
        self.plant("ci/sizes_allowed.txt", "model/a.h | parameters | a reason\n")
        self.assert_refuses("ci/sizes_allowed.txt:1: model/a.h keeps this limit: remove the line")

    def test_empty_tree(self):
        code, output = self.run_gate()
        self.assertEqual((code, "read nothing" in output), (2, True), output)


if __name__ == "__main__":
    unittest.main()
