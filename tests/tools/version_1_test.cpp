// Files that version 0.1.0 wrote are read as long as their schema is.
#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

namespace ddpscope::test::version_1_test {
namespace {
std::string kept(const std::string& run) { return DDPSCOPE_KEPT_DIR "/" + run; }

/// Its rank files alone, merged anew.
ToolRun merge_again(const std::string& run, const std::string& folder) {
  std::filesystem::copy(kept(run), folder);
  std::filesystem::remove(folder + "/report.json");
  return run_shell("ddpscope merge " + folder);
}

TEST_CASE("files of schema 1 are valid", "[tools]") {
  const std::string run = GENERATE("finished", "stopped");
  const ToolRun validated = run_shell("ddpscope validate " + kept(run) + "/*.json*");
  CHECK(validated.code == 0);
  CHECK(validated.says("launch.json: valid launch record\n"));
  CHECK(validated.says("rank-1.jsonl: valid rank file of "));
  CHECK(validated.says("report.json: valid report\n"));
}

TEST_CASE("rank files of schema 1 are merged", "[tools]") {
  const TemporaryDir dir;
  const ToolRun finished = merge_again("finished", dir / "finished");
  CHECK(finished.code == 0);
  CHECK(finished.says(
      "ddpscope: 0 errors, 0 warnings, 1 note; primary norm-local-batch-stats in trunk"));
  const ToolRun stopped = merge_again("stopped", dir / "stopped");
  CHECK(stopped.code == 1);
  CHECK(stopped.says("ddpscope: 1 error, 0 warnings, 1 note; primary rank-first-failure"));
}

TEST_CASE("a report of schema 1 is shown, and compared with one that is written now", "[tools]") {
  const TemporaryDir dir;
  const ToolRun shown = run_shell("ddpscope show " + kept("stopped") + "/report.json");
  CHECK(shown.says("2 parameters got no gradient on rank 1 and did on rank 0"));
  merge_again("stopped", dir / "stopped");
  const ToolRun compared = run_shell("ddpscope compare " + kept("stopped") + "/report.json " +
                                     (dir / "stopped") + "/report.json");
  CHECK(compared.says("ddpscope: 0 new, 3 fixed, 2 persisting"));
}

}  // namespace
}  // namespace ddpscope::test::version_1_test
