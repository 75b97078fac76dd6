#include <fstream>
#include <iterator>

#include "tests/support/temporary_dir.h"
#include "tests/tools/rank_sample.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::suppress_test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Suppress {
  TemporaryDir dir;
  std::string file = dir / "ci.txt";
  ToolRun run(const std::string& rest) const {
    return run_shell("ddpscope suppress --file " + file + " " + rest);
  }
};

TEST_CASE("suppress adds lines that a run then takes", "[tools]") {
  const Suppress suppress;
  CHECK(suppress.run("optim-empty --reason 'by design'").code == 0);
  CHECK(suppress.run("0123456789abcdef --reason 'issue #7' --until 2999-12-31").code == 0);
  CHECK(suppress.run("'grad-*:module=head.*' --reason frozen").code == 0);
  CHECK(read(suppress.file) ==
        "optim-empty  # by design\n"
        "0123456789abcdef:until=2999-12-31  # issue #7\n"
        "grad-*:module=head.*  # frozen\n");
  write_findings(suppress.dir / "o", {finding_named("1111111111111111", Severity::kError)});
  CHECK(run_shell("ddpscope show " + (suppress.dir / "o")).code == 1);
  const auto shown =
      run_shell("ddpscope show --suppressions " + suppress.file + " " + (suppress.dir / "o"));
  CHECK(shown.code == 0);
  CHECK(shown.says("(suppressed: by design)"));
  run_shell("ddpscope merge " + (suppress.dir / "o"));
  CHECK(run_shell("ddpscope show --suppressions " + suppress.file + " " +
                  (suppress.dir / "o/report.json"))
            .says("(suppressed: by design)"));
}

TEST_CASE("suppress begins a new line and adds none twice", "[tools]") {
  const Suppress suppress;
  std::ofstream(suppress.file) << "# no end of line";
  suppress.run("optim-empty --reason r");
  CHECK(suppress.run("optim-empty --reason r").says("has this line already"));
  CHECK(read(suppress.file) == "# no end of line\noptim-empty  # r\n");
}

TEST_CASE("suppress refuses what a reader would refuse or never match", "[tools]") {
  const Suppress suppress;
  CHECK(suppress.run("optim-empty").says("--reason is required"));
  CHECK(suppress.run("optim-empty --reason ''").says("no reason"));
  CHECK(suppress.run("optim-emty --reason r").says("did you mean \"optim-empty\"?"));
  CHECK(suppress.run("optim-empty --reason r --until 2999-13-01").says("is not a date"));
  CHECK(suppress.run("optim-empty --reason r --until 2000-01-01").says("is past"));
  CHECK(suppress.run("optim-empty:modul=a --reason r").says("unknown field \"modul\""));
  CHECK(suppress.run("\"optim-empty\" --reason \"$(printf 'a\\nb')\"").says("one line"));
  CHECK(suppress.run("'# x' --reason r").code == 2);
  const auto cut = suppress.run("'optim-empty:module=a #b' --reason r");
  CHECK(cut.code == 2);
  CHECK(cut.says("error: a # after a blank begins the reason"));
  CHECK(suppress.run("0123 --reason r").code == 2);
  CHECK(suppress.run("--reason r").code == 2);
  CHECK(read(suppress.file).empty());
}

TEST_CASE("suppress returns 3 for a file that it cannot add to", "[tools]") {
  const Suppress suppress;
  const auto run =
      run_shell("ddpscope suppress optim-empty --reason r --file " + suppress.dir.path());
  CHECK(run.code == 3);
  CHECK(run.says("not a regular file"));
}

}  // namespace
}  // namespace ddpscope::test::suppress_test
