"""ci/check_includes.py refuses arrows that are not in the graph and libraries out of place."""

import unittest

import planted

MODULES = {
    "model": "ddpscope_add_module(model SOURCES a.cpp)\n",
    "checks": "ddpscope_add_module(checks\n  DEPENDS model SOURCES b.cpp)\n",
    "report": "ddpscope_add_module(report DEPENDS model SOURCES escape.cpp)\n",
    "hooks": "ddpscope_add_module(hooks TORCH DEPENDS model SOURCES watch.cpp)\n",
    "plugin": "ddpscope_add_module(plugin_worker DEPENDS model checks SOURCES log.cpp worker.cpp)\n"
              "add_library(ddpscope SHARED session.cpp)\n"
              "target_link_libraries(ddpscope PUBLIC ddpscope::torch_cpu PRIVATE ddpscope_hooks)\n",
}


class Includes(planted.GateTest):
    gate = ["check_includes.py"]

    def setUp(self):
        super().setUp()
        for folder, text in MODULES.items():
            self.plant(f"{folder}/CMakeLists.txt", text)
        self.plant("model/finding.h", "#include <string>\n")
        self.plant("report/escape.h", "#include <string>\n")
        self.plant("hooks/watch.h", "#include <torch/nn/module.h>\n")
        self.plant("include/ddpscope/ddpscope.h", "#include <torch/nn/module.h>\n")
        self.plant("checks/b.cpp", '#include "model/finding.h"\n')
        self.assert_passes()

    def refuse(self, name, include, why):
        self.plant(name, f"#pragma once\n#include {include}\n")
        self.assert_refuses(f"{name}:2: {include[1:-1]}: {why}")
        (self.tree / name).unlink()

    def test_arrow_that_is_not_in_the_graph(self):
        for name in ("checks/b.cpp", "checks/other.h", "tests/checks/b_test.cpp", "hooks/watch.cu"):
            with self.subTest(name):
                folder = name.split("/")[-2]
                self.refuse(name, '"report/escape.h"', f"{folder} does not depend on report")

    def test_arrow_through_a_module_in_between(self):
        self.refuse("model/a.cpp", '"checks/check.h"', "model does not depend on checks")

    def test_path_that_does_not_start_at_the_root(self):
        self.refuse("checks/b.cpp", '"../model/finding.h"', "the path starts at the repository")
        self.refuse("checks/b.cpp", '"check.h"', "the path does not name its module")

    def test_torch_in_the_core(self):
        for name in ("model/a.h", "checks/b.cpp", "plugin/worker.cpp", "tests/checks/b_test.cpp",
                     "tests/support/events.h"):
            with self.subTest(name):
                self.refuse(name, "<torch/types.h>", "this file does not know LibTorch")
                self.refuse(name, "<c10/util/Exception.h>", "this file does not know LibTorch")

    def test_torch_through_a_header(self):
        self.plant("plugin/session.h", '#include "hooks/watch.h"\n')
        self.refuse("plugin/worker.cpp", '"plugin/session.h"', "this file does not know LibTorch")
        self.plant("plugin/session.cpp", '#include "plugin/session.h"\n')
        self.assert_passes()

    def test_torch_in_the_graph_of_the_core(self):
        self.plant("report/CMakeLists.txt", "ddpscope_add_module(report TORCH SOURCES a.cpp)\n")
        self.assert_refuses("report/CMakeLists.txt: the core does not know LibTorch")

    def test_module_that_is_not_there(self):
        self.plant("report/CMakeLists.txt", "ddpscope_add_module(report DEPENDS facts SOURCES a)\n")
        self.assert_refuses("report/CMakeLists.txt: DEPENDS facts is no module")

    def test_gate_and_its_generated_lists(self):
        self.plant("interpose/gate.h", "#pragma once\n")
        self.plant("hooks/watch.cpp", '#include "interpose/gate.h"\n#include "forward_list.inc"\n')
        self.assert_passes()
        self.refuse("checks/b.cpp", '"interpose/gate.h"', "checks does not depend on interpose")

    def test_tests_of_another_folder(self):
        self.plant("tests/model/names.h", "#pragma once\n")
        self.plant("tests/model/a_test.cpp", '#include "tests/model/names.h"\n')
        self.assert_passes()
        for name in ("tests/checks/b_test.cpp", "checks/b.cpp"):
            self.refuse(name, '"tests/model/names.h"', "tests are included by their own folder")

    def test_getenv_outside_its_place(self):
        call = 'const char* level = std::getenv("LEVEL");\n'
        for name in ("config/env.cpp", "interpose/gate.c", "tests/checks/b_test.cpp"):
            self.plant(name, call)
        self.assert_passes()
        self.plant("checks/b.cpp", "\n" + call)
        self.assert_refuses("checks/b.cpp:2: getenv is allowed in config/env.cpp only")

    def test_cycle(self):
        self.plant("model/CMakeLists.txt", "ddpscope_add_module(model DEPENDS checks SOURCES a)\n")
        self.assert_refuses("CMakeLists.txt: DEPENDS makes a cycle of checks, ")

    def test_library_outside_its_modules(self):
        for name, include in (("model/a.cpp", "<fmt/format.h>"), ("checks/b.cpp", "<CLI/CLI.hpp>"),
                              ("checks/b.cpp", "<nlohmann/json.hpp>"),
                              ("plugin/worker.cpp", "<spdlog/spdlog.h>"),
                              ("include/ddpscope/ops.h", "<fmt/format.h>"),
                              ("tests/checks/b_test.cpp", "<catch2/catch.hpp>")):
            with self.subTest(f"{name} {include}"):
                self.refuse(name, include, f"{include[1:].split('/')[0]} is allowed in ")
        self.refuse("checks/b.cpp", "<boost/any.hpp>", "no module may use boost")
        self.refuse("checks/b.cpp", "<cuda_runtime_api.h>", "CUDA is allowed in cuda/, ")
        self.refuse("checks/b.cpp", "<cub/cub.cuh>", "CUDA is allowed in cuda/, ")
        self.plant("hooks/summary.cu", "#include <cuda_runtime.h>\n")
        self.plant("plugin/log.cpp", "#include <spdlog/spdlog.h>\n")
        self.assert_passes()

    def test_public_header_knows_nothing_of_ours(self):
        self.refuse("include/ddpscope/ops.h", '"model/finding.h"', "include does not depend on ")
        self.refuse("hooks/watch.cpp", "<ddpscope/ddpscope.h>", "the public headers are for users")

    def test_both_versions_of_fmt(self):
        self.plant("plugin/log.h", "#include <fmt/format.h>\n")
        self.plant("plugin/session.cpp", '#include "hooks/watch.h"\n')
        self.assert_passes()
        self.plant("plugin/session.cpp", '#include "hooks/watch.h"\n#include "plugin/log.h"\n')
        self.assert_refuses("plugin/session.cpp:2: plugin/log.h: LibTorch brings another fmt")

    def test_programs_of_users(self):
        self.plant("tests/checks/user_program.cpp",
                   "#include <ddpscope/ddpscope.h>\n#include <torch/torch.h>\n")
        self.assert_passes()


if __name__ == "__main__":
    unittest.main()
