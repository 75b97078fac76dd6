#include "records/report_dir.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "records/record_json.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::report_dir_test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("only rank-<digits>.jsonl is a rank file", "[records]") {
  CHECK(rank_of_file_name("rank-0.jsonl") == 0);
  CHECK(rank_of_file_name("rank-1048576.jsonl") == 1048576);
  for (const char* name : {"rank-.jsonl", "rank-01.jsonl", "rank--1.jsonl", "rank-1048577.jsonl",
                           "rank-99999999999999999999.jsonl", "rank-1.jsonl.gz", "xrank-1.jsonl"}) {
    CHECK_FALSE(rank_of_file_name(name));
  }
}

TEST_CASE("rank files are listed by rank, links and numbers that are no rank are named",
          "[records]") {
  const TemporaryDir dir;
  for (const char* name : {"rank-10.jsonl", "rank-2.jsonl", "other.txt"}) {
    std::ofstream(dir / name) << "x";
  }
  fs::create_directory(dir / "rank-3.jsonl");
  fs::create_symlink("/etc/passwd", dir / "rank-4.jsonl");
  for (const char* name : {"rank-01.jsonl", "rank-1048577.jsonl", "rank-x.jsonl"}) {
    std::ofstream(dir / name) << "x";
  }
  const RankFileList list = list_rank_files(dir.path() + "/");
  REQUIRE(list.files.size() == 2);
  CHECK(list.files[0].rank == 2);
  CHECK(list.files[1].path == dir / "rank-10.jsonl");
  REQUIRE(list.refused.size() == 4);
  CHECK(list.refused[0].path == dir / "rank-01.jsonl");
  CHECK(list.refused[1].text.starts_with("ranks are numbers from 0 to 1048576"));
  CHECK(list.refused[2].text == "this is no regular file");
  CHECK(list_rank_files(dir / "absent").error != "");
}

TEST_CASE("a process that only has the number of the owner is not the owner", "[records]") {
  const TemporaryDir dir;
  RunRecord run = sample_run(0, 1);
  run.pid = ::getppid();
  const auto owner_since = [&](const std::string& started) {
    run.started = started;
    std::ofstream(dir / "rank-0.jsonl") << to_json(run).dump() << "\n";
    return living_owner(dir / "rank-0.jsonl", run.host);
  };
  CHECK(owner_since("2030-01-01T00:00:00Z") == run.pid);
  CHECK(owner_since("2001-01-01T00:00:00Z") == std::nullopt);
  CHECK(owner_since("no date") == run.pid);
}

TEST_CASE("moving aside touches report files only", "[records]") {
  const TemporaryDir dir;
  const std::string out = dir / "out";
  CHECK(move_aside(out) == "");
  fs::create_directories(out + ".1");
  std::ofstream(out + ".1/rank-7.jsonl") << "older";
  std::ofstream(out + ".1/weights.pt") << "kept";
  fs::create_directory(out);
  std::ofstream(out + "/rank-0.jsonl") << "earlier";
  std::ofstream(out + "/rank-0.ring") << "ring";
  std::ofstream(out + "/launch.json") << "{}";
  std::ofstream(out + "/weights.pt") << "mine";
  CHECK(move_aside(out + "/") == "");
  CHECK(text_of(out + ".1/rank-0.jsonl") == "earlier");
  CHECK(fs::exists(out + ".1/rank-0.ring"));
  CHECK(fs::exists(out + ".1/launch.json"));
  CHECK_FALSE(fs::exists(out + ".1/rank-7.jsonl"));
  CHECK(text_of(out + ".1/weights.pt") == "kept");
  CHECK(text_of(out + "/weights.pt") == "mine");
  CHECK_FALSE(fs::exists(out + "/rank-0.jsonl"));
}

TEST_CASE("the newest run is the one that started last", "[records]") {
  RunRecord first = sample_run(0, 1);
  RunRecord second = sample_run(1, 1);
  second.run_id = "a-later-one";
  second.started = "2030-01-02T00:00:00Z";
  CHECK(newest_run_id({&second, &first}) == "a-later-one");
  CHECK(newest_run_id({}) == "");
}

TEST_CASE("a file is replaced whole or not at all", "[records]") {
  const TemporaryDir dir;
  const std::string path = dir / "report.html";
  CHECK(write_file_atomically(path, "one") == "");
  CHECK(write_file_atomically(path, "two") == "");
  CHECK(text_of(path) == "two");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 1);
  fs::create_symlink(path, dir / "link");
  CHECK(write_file_atomically(dir / "link", "three") != "");
  CHECK(write_file_atomically(dir / "no/such/folder", "x") != "");
}

}  // namespace
}  // namespace ddpscope::test::report_dir_test
