#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "config/parser.h"
#include "config/text.h"
#include "tests/support/catch.h"

using namespace ddpscope;  // NOLINT(google-build-using-namespace)

namespace {
const CheckIds kIds = {"perf-loader", "perf-loader.limit"};

ParsedSettings parse(std::string_view text) { return parse_config_text(text, "job.conf", kIds); }

std::string in_temporary_folder(const std::string& name) {
  return (std::filesystem::temp_directory_path() / (name + std::to_string(getpid()))).string();
}
}  // namespace

TEST_CASE("a config file has one pair per line and comments", "[config]") {
  const auto parsed = parse(
      "# all of it\r\n"
      "\n"
      "level = stacks   # slow\r\n"
      "report_dir=a:b\\:c#1\n"
      "perf-loader.limit=3");
  CHECK(parsed.problems.empty());
  CHECK(parsed.settings.level == Level::kStacks);
  CHECK(parsed.settings.report_dir == "a:b:c#1");
  CHECK(parsed.settings.check_options.at("perf-loader.limit") == "3");
}

TEST_CASE("errors of a config file name file and line", "[config]") {
  const auto parsed = parse("level=watch\nexchange_every=10s\nchekcs=*\noff\nconfig_file=x\n");
  REQUIRE(parsed.problems.size() == 4);
  CHECK(parsed.problems[0].message ==
        R"(job.conf:2: exchange_every="10s" is not a whole number of steps >= 1 (default 16))");
  CHECK(parsed.problems[1].message ==
        R"(job.conf:3: unknown key "chekcs" (value "*"); did you mean "checks"? )"
        R"(Its value is a comma-separated list of globs of check ids)");
  CHECK(parsed.problems[2].message == R"(job.conf:4: "off" is not key=value)");
  CHECK(parsed.problems[3].message == "job.conf:5: config_file is not allowed in a config file");
  CHECK(parsed.problems[3].place == "job.conf:5");
  CHECK_FALSE(parsed.off);
}

TEST_CASE("a config file path with escapes prints as text", "[config]") {
  const auto parsed = parse_config_text("x", "a\x1b.conf", kIds);
  CHECK(parsed.problems.at(0).message == R"(a\x1b.conf:1: "x" is not key=value)");
}

TEST_CASE("a config file that cannot be read is a problem", "[config]") {
  const auto missing = parse_config_file("/nonexistent/job.conf", "DDPSCOPE", kIds);
  REQUIRE(missing.problems.size() == 1);
  CHECK(missing.problems[0].message ==
        R"(DDPSCOPE: config_file="/nonexistent/job.conf" is not a readable file: no such file)");
  const auto folder = parse_config_file("/", "Options", kIds);
  REQUIRE(folder.problems.size() == 1);
  CHECK(folder.problems[0].message ==
        R"(Options: config_file="/" is not a readable file: not a regular file)");
}

TEST_CASE("a file is read whole up to its limit", "[config]") {
  const std::string path = in_temporary_folder("ddpscope-config-file-test");
  std::ofstream(path, std::ios::binary) << std::string(16, 'x');
  CHECK(read_text_file(path, 16).text == std::string(16, 'x'));
  CHECK(read_text_file(path, 16).failure.empty());
  CHECK(read_text_file(path, 15).failure == "larger than 15 bytes");
  CHECK(read_text_file(path, 15).text.empty());
  std::filesystem::remove(path);
}

TEST_CASE("the nearest word is a typing error away or begins so, or none is", "[config]") {
  CHECK(nearest("chekcs", {"level", "checks"}) == "checks");
  CHECK(nearest("levle", {"level", "checks"}) == "level");
  CHECK(nearest("hcekcs", {"level", "checks"}) == "checks");
  CHECK(nearest("hang", {"level", "hang_after_s"}) == "hang_after_s");
  CHECK(nearest("ab", {"cd", "abcdefgh"}).empty());
  CHECK(nearest("sync_batchnorm", {"sync_batch_norm", "sync_batch_norm_exclude"}) ==
        "sync_batch_norm");
  CHECK(nearest("zzz", {"level", "checks"}).empty());
  CHECK(nearest("", {"level"}).empty());
  CHECK(nearest(std::string(100000, 'a'), {"level"}).empty());
}
