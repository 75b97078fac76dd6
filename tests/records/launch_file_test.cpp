#include "records/launch_file.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::launch_file_test {
namespace {

std::string problem(const std::string& text) {
  const TemporaryDir dir;
  std::ofstream(dir / "launch.json") << text;
  const auto result = read_launch_file(dir / "launch.json");
  const auto* found = std::get_if<ReadProblem>(&result);
  return found == nullptr ? "" : found->text;
}

TEST_CASE("a launch record is read as it was written", "[records]") {
  const TemporaryDir dir;
  const LaunchRecord launch = {.run_id = "run-a",
                               .ranks = {{.rank = 0, .code = 3, .ended_unix_ns = 17},
                                         {.rank = 1, .signal = "SIGKILL", .stopped = true}}};
  REQUIRE(write_launch_file(dir.path(), launch) == "");
  const auto result = read_launch_file(dir / "launch.json");
  REQUIRE(std::holds_alternative<LaunchRecord>(result));
  const auto& read = std::get<LaunchRecord>(result);
  CHECK(read.run_id == "run-a");
  REQUIRE(read.ranks.size() == 2);
  CHECK(read.ranks[0].code == 3);
  CHECK(read.ranks[0].ended_unix_ns == 17);
  CHECK(read.ranks[0].signal == "");
  CHECK(read.ranks[1].signal == "SIGKILL");
  CHECK(read.ranks[1].stopped);
}

TEST_CASE("a hostile launch record is refused with one sentence", "[records]") {
  const std::string begin = R"({"record":"launch","schema":1,"ranks":)";
  CHECK(problem("") == "this is no launch record");
  CHECK(problem("[]") == "this is no launch record");
  CHECK(problem(R"({"record":"run","schema":1})") == "this is no launch record");
  CHECK(problem(R"({"record":"launch"})") == "this is no launch record");
  CHECK(problem(R"({"record":"launch","schema":99})").find("newer") != std::string::npos);
  CHECK(problem(begin + "7}") == "\"ranks\" is no list");
  CHECK(problem(begin + R"([{"rank":-1}]})") == "\"rank\" is no rank from 0 to 2^20");
  CHECK(problem(begin + R"([{"rank":1048577}]})") == "\"rank\" is no rank from 0 to 2^20");
  CHECK(problem(begin + R"([{"rank":0,"signal":9}]})") == "\"signal\" is no string");
  CHECK(problem(begin + R"([[]]})") == "a record is no object");
  CHECK(problem(std::string(2 << 20, ' ')) != "");
  CHECK(problem(std::string(100'000, '[')) != "");
  CHECK(problem(begin + R"([],"later":[{"a":1}]})") == "");
}

TEST_CASE("a launch record that is a link or a folder is refused", "[records]") {
  const TemporaryDir dir;
  std::filesystem::create_symlink("/etc/passwd", dir / "launch.json");
  CHECK(std::holds_alternative<ReadProblem>(read_launch_file(dir / "launch.json")));
  CHECK(std::holds_alternative<ReadProblem>(read_launch_file(dir.path())));
}

}  // namespace
}  // namespace ddpscope::test::launch_file_test
