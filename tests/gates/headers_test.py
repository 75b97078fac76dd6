"""ci/check_headers.py refuses a header that works only after another one."""

import unittest

import planted

NEEDY = "#pragma once\nstruct Place { std::string path; };\n"


class Headers(planted.GateTest):
    gate = ["check_headers.py"]

    def setUp(self):
        super().setUp()
        self.plant("model/place.h", "#pragma once\n#include <string>\n" + NEEDY)
        self.plant("checks/check.h", '#pragma once\n#include "model/place.h"\nusing P = Place;\n')

    def test_header_without_string(self):
        self.assert_passes()
        self.plant("model/place.h", NEEDY)
        self.assert_refuses("model/place.h:1: does not compile alone: model/place.h:2:")
        self.assert_refuses("checks/check.h:1: does not compile alone: ")

    def test_header_that_its_source_includes_second(self):
        self.plant("model/place.h", NEEDY)
        (self.tree / "checks/check.h").unlink()
        self.plant("model/place.cpp", '#include "model/place.h"\n#include <string>\n')
        self.assert_passes()  # here the build says it
        self.plant("model/place.cpp", '#include <string>\n#include "model/place.h"\n')
        self.assert_refuses("model/place.h:1: does not compile alone: ")

    def test_what_comes_before_the_source(self):
        builds = ("target_precompile_headers(m PRIVATE <string>)", "ddpscope_join_sources(m 8)")
        for build in builds:
            self.plant("model/place.h", NEEDY)
            self.plant("model/place.cpp", '#include "model/place.h"\n')
            self.plant("model/CMakeLists.txt", build + "\n")
            self.assert_refuses("model/place.h:1: does not compile alone: ")

    def test_what_others_include_is_lent_to_none(self):
        for name in ("a", "b"):
            self.plant(f"model/{name}.h", "#pragma once\n#include <cstdint>\n#include <string>\n")
        for name in ("c", "d"):
            self.plant(f"model/{name}.h", "#pragma once\n#include <cstdint>\n")
        self.assert_passes()
        self.plant("model/c.h", "#include <cstdint>\n" + NEEDY)
        self.assert_refuses("model/c.h:1: does not compile alone: ")

    def test_headers_that_bring_torch_or_cuda_are_left_out(self):
        self.plant("cuda/cuda_call.h", "#include <cuda_runtime_api.h>\n" + NEEDY)
        self.plant("include/ddpscope/ddpscope.h", "#include <torch/nn/module.h>\n" + NEEDY)
        self.plant("plugin/session.h", "#include <ddpscope/ddpscope.h>\n" + NEEDY)
        self.assert_passes()

    def test_headers_of_programs_are_left_out(self):
        self.plant("tests/support/place.h", NEEDY)
        self.assert_passes()

    def test_what_compiled_is_remembered_and_what_did_not_is_not(self):
        cache = ["--cache", self.tree / "headers.json"]
        self.assert_passes(self.tree, *cache)
        self.plant("model/place.h", NEEDY)
        for _ in range(2):
            self.assert_refuses("checks/check.h:1: does not compile alone", self.tree, *cache)
        self.plant("model/place.h", "#include <string>\n" + NEEDY)
        self.assert_passes(self.tree, *cache)

    def test_empty_tree(self):
        (self.tree / "model/place.h").unlink()
        (self.tree / "checks/check.h").unlink()
        code, output = self.run_gate()
        self.assertEqual((code, "read nothing" in output), (2, True), output)


if __name__ == "__main__":
    unittest.main()
