// The gate in programs that are linked, preloaded or neither. The programs are built by
// CMakeLists.txt, which also gives their folder and that of the libraries.
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test {
namespace {
using nlohmann::json;

struct Run {
  TemporaryDir dir;
  int exit_code = -1;
  std::string said;

  explicit Run(const std::string& command, bool preload = false) {
    const std::string settings =
        "DDPSCOPE=console=quiet:report_dir=" + dir / "out" +
        (preload ? " LD_PRELOAD=" LIBRARIES "/libddpscope_preload.so " : " ");
    const std::string line =
        "cd " + dir.path() + " && env " + settings + command + " >" + dir / "said" + " 2>&1";
    const int status = std::system(line.c_str());
    if (WIFEXITED(status)) exit_code = WEXITSTATUS(status);
    std::ifstream file(dir / "said");
    said.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<json> records(const std::string& kind) const {
    std::vector<json> found;
    std::ifstream file(dir / "out/rank-0.jsonl");
    for (std::string line; std::getline(file, line);) {
      json record = json::parse(line);
      if (record.at("record") == kind) found.push_back(std::move(record));
    }
    return found;
  }
};

void check_all_live(const Run& run) {
  CHECK(run.exit_code == 0);
  CHECK(run.said == "");
  REQUIRE(run.records("run").size() == 1);
  const json record = run.records("run")[0];
  REQUIRE(record.at("sources").size() >= 7);
  for (const auto& [source, state] : record.at("sources").items()) {
    INFO(source);
    CHECK(state == "live");
  }
  CHECK(record.at("blocked").empty());
  CHECK(run.records("summary").size() == 1);
}

// The median of several runs.
double milliseconds(const std::string& command) {
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(std::system(command.c_str()) == 0);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}
}  // namespace

TEST_CASE("All sources are live however a program lists LibTorch before ddpscope") {
  for (const char* program :
       {"imported_as_needed", "imported_no_as_needed", "flags_as_needed", "flags_no_as_needed"}) {
    INFO(program);
    check_all_live(Run(PROGRAMS "/" + std::string(program)));
  }
}

TEST_CASE("A program that is linked and preloaded has one gate and one session") {
  check_all_live(Run(PROGRAMS "/imported_as_needed", /*preload=*/true));
}

TEST_CASE("The launcher and not the only rank prints the verdict") {
  const Run run("DDPSCOPE=1 " DDPSCOPE_TOOL " run --out out -- " PROGRAMS "/imported_as_needed");
  CHECK(run.exit_code == 0);
  const std::string verdict = "ddpscope: 0 errors, 0 warnings, 0 notes";
  const std::size_t first = run.said.find(verdict);
  CHECK(first != std::string::npos);
  CHECK(run.said.find(verdict, first + 1) == std::string::npos);
}

TEST_CASE("A core that is opened later runs and says which checks are blocked") {
  const Run run(PROGRAMS "/opening_program " LIBRARIES "/libddpscope.so");
  CHECK(run.exit_code == 0);
  CHECK(run.said == "");
  REQUIRE(run.records("run").size() == 1);
  const json record = run.records("run")[0];
  CHECK(record.at("sources").at("op") == "live");
  CHECK(record.at("sources").at("gradient") == "absent");
  REQUIRE(record.at("blocked").contains("optim-stale-gradient"));
  for (const auto& [id, why] : record.at("blocked").items()) {
    INFO(id);
    CHECK(why.get<std::string>().find("absent") != std::string::npos);
  }
  CHECK(run.records("model").size() == 1);
  CHECK(run.records("step").size() >= 3);
}

TEST_CASE("A preloaded program without an attach runs as before") {
  const Run run(PROGRAMS "/opening_program", /*preload=*/true);
  CHECK(run.exit_code == 0);
  CHECK(run.said == "");
}

TEST_CASE("A program is watched through the shells that start it") {
  const Run run("sh -c 'sh -c " PROGRAMS "/opening_program; echo $LD_PRELOAD >&2'",
                /*preload=*/true);
  CHECK(run.exit_code == 0);
  CHECK(run.said.find("libddpscope_preload.so") != std::string::npos);  // the shell keeps it
  REQUIRE(run.records("run").size() == 1);
  CHECK(run.records("step").size() >= 3);
}

TEST_CASE("Exceptions of a library that is opened for itself alone find their handlers") {
  for (const char* library : {"throwing_shared.so", "throwing_static.so"}) {
    INFO(library);
    const Run run(PROGRAMS "/c_host " PROGRAMS "/" + std::string(library), /*preload=*/true);
    CHECK(run.exit_code == 0);
    CHECK(run.said == "");
  }
}

TEST_CASE("A program that opens ddpscope and closes it again ends as it would without") {
  const Run run("LD_LIBRARY_PATH=" TORCH_LIBRARIES ":" LIBRARIES " " PROGRAMS "/c_host " LIBRARIES
                "/libddpscope.so",
                /*preload=*/false);
  CHECK(run.exit_code == 0);
  CHECK(run.said == "");
}

TEST_CASE("A preloaded program without LibTorch costs next to nothing") {
  const Run run("/bin/true", /*preload=*/true);
  CHECK(run.exit_code == 0);
  CHECK(run.said == "");
  const double plain = milliseconds("/bin/true");
  const double preloaded =
      milliseconds("DDPSCOPE=1 LD_PRELOAD=" LIBRARIES "/libddpscope_preload.so /bin/true");
  CHECK(preloaded < plain + 10);
}

}  // namespace ddpscope::test
