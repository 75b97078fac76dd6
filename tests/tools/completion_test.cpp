#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::completion_test {
namespace {

bool has_program(const std::string& name) { return run_shell("command -v " + name).code == 0; }

/// What bash offers for the last word of `words`.
std::string offers(const TemporaryDir& dir, const std::string& words) {
  std::ofstream(dir / "try.sh") << "source \"$1\"; COMP_WORDS=(" << words
                                << "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ddpscope; "
                                   "echo \"${COMPREPLY[*]}\"";
  return run_shell("ddpscope completion bash > " + (dir / "c") + "; bash " + (dir / "try.sh") +
                   " " + (dir / "c"))
      .text;
}

TEST_CASE("bash completes commands, options and checks", "[tools]") {
  if (!has_program("bash")) DDPSCOPE_SKIP("bash is not installed");
  const TemporaryDir dir;
  CHECK(offers(dir, "ddpscope va") == "validate\n");
  CHECK(offers(dir, "ddpscope compare --fail") == "--fail-on\n");
  CHECK(offers(dir, "ddpscope explain tool-rank") == "tool-rank-missing\n");
  CHECK(offers(dir, "ddpscope completion z") == "zsh\n");
  CHECK(offers(dir, "ddpscope merge x") == "\n");
}

TEST_CASE("what zsh and fish get is of their grammar", "[tools]") {
  CHECK(run_shell("ddpscope completion zsh").says("'--json[Print a JSON list]'"));
  CHECK(run_shell("ddpscope completion fish").says("__fish_seen_subcommand_from list' -l json"));
  CHECK(run_shell("ddpscope completion tcsh").code == 2);
  if (!has_program("zsh") || !has_program("fish")) DDPSCOPE_SKIP("zsh or fish is not installed");
  const TemporaryDir dir;
  CHECK(run_shell("ddpscope completion zsh > " + (dir / "z") + "; zsh -n " + (dir / "z")).text ==
        "");
  CHECK(run_shell("ddpscope completion fish > " + (dir / "f") + "; fish -n " + (dir / "f")).text ==
        "");
}

TEST_CASE("the manual page tells every command and option", "[tools]") {
  const auto page = run_shell("ddpscope man");
  CHECK(page.code == 0);
  for (const std::string part : {".TH DDPSCOPE 1", ".SS validate", "\\fB\\-\\-suppressions\\fR",
                                 ".SH EXIT STATUS", "\\fB\\-o\\fR, \\fB\\-\\-output\\fR"}) {
    CHECK(page.says(part));
  }
  if (!has_program("man")) DDPSCOPE_SKIP("man is not installed");
  CHECK(run_shell("ddpscope man | man --warnings -E UTF-8 -l - > /dev/null").text == "");
}

}  // namespace
}  // namespace ddpscope::test::completion_test
