"""ci/check_exports.py refuses symbols and libraries that ddpscope must keep to itself."""

import os
import subprocess
import unittest

import planted

MAP = """{
  global:
    extern "C++" {
      ddpscope::api0::*;
      typeinfo?for?ddpscope::api0::*;
    };
    ddpscope_step;
  local: *;
};
"""
OWN = """
namespace ddpscope::api0 {
struct Error { virtual ~Error(); };
Error::~Error() = default;
int findings() { return 1; }
}
extern "C" void ddpscope_step() {}
"""


class Exports(planted.GateTest):
    gate = ["check_exports.py"]

    def setUp(self):
        super().setUp()
        self.map = self.plant("exports.map", MAP)
        self.library = self.tree / "libddpscope.so"

    def build(self, source, *options):
        path = self.plant("library.cpp", source)
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-shared", "-fPIC", str(path),
                        "-o", str(self.library), *options], check=True)

    def refuse(self, message):
        self.assert_refuses(message, self.library, self.map)

    def with_script(self):
        return f"-Wl,--version-script={self.map}"

    def test_library_with_its_script(self):
        self.build(OWN, self.with_script())
        self.assert_passes(self.library, self.map)

    def test_library_without_its_script(self):
        self.build(OWN + "namespace fmt { int format() { return 1; } }\n")
        self.refuse("libddpscope.so: exports fmt::format(), which exports.map does not list")

    def test_foreign_template_with_a_result_of_ours(self):
        self.build(OWN + "namespace std { template <class T> T leak(T a) { return a; }\n"
                   "template ddpscope::api0::Error* leak(ddpscope::api0::Error*); }\n",
                   self.with_script())
        self.refuse("libddpscope.so: exports ddpscope::api0::Error* std::leak<")

    def test_listed_symbol_that_is_gone(self):
        self.build(OWN.replace("ddpscope_step", "ddpscope_stop"), self.with_script())
        self.refuse("libddpscope.so: ddpscope_step of exports.map is not exported")
        self.build('extern "C" void ddpscope_step() {}\n', self.with_script())
        self.refuse("libddpscope.so: nothing begins with _ZN[VKRO]*8ddpscope4api0 of exports.map")

    def test_script_that_lets_out_more_than_its_namespace(self):
        for pattern in ("*", "std::*", "ddpscope*", "vtable?for?fmt::*"):
            with self.subTest(pattern):
                self.map = self.plant("exports.map", MAP.replace("typeinfo?for?ddpscope::api0::*",
                                                                 pattern))
                self.build(OWN, self.with_script())
                self.refuse(f"exports.map:5: {pattern}: only members of a namespace of ddpscope's")
        self.map = self.plant("exports.map", MAP.replace("ddpscope_step", "ddpscope_*"))
        self.build(OWN, self.with_script())
        self.refuse("exports.map:7: ddpscope_*: not understood")

    def test_shared_library_of_a_third_party(self):
        other = self.tree / "libfmt.so.9"
        self.build("int format() { return 1; }\n", "-Wl,-soname,libfmt.so.9")
        self.library.rename(other)
        self.build(OWN, self.with_script(), "-Wl,--no-as-needed", str(other))
        self.refuse("libddpscope.so: needs libfmt.so.9, which the program need not have")

    def test_library_that_is_not_built_is_skipped(self):
        code, output = self.run_gate(self.library, self.map)
        self.assertEqual((code, "skipped: libddpscope.so is not built" in output), (77, True))


if __name__ == "__main__":
    unittest.main()
