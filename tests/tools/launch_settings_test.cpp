#include "tools/launch_settings.h"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

using namespace ddpscope;

TEST_CASE("the launcher's keys join what the user set", "[tools]") {
  CHECK(with_overrides("", {{"report_dir", "o"}}) == "report_dir=o");
  CHECK(with_overrides("on", {{"report_dir", "o"}}) == "report_dir=o");
  CHECK(with_overrides("1", {}) == "1");
  CHECK(with_overrides("overhead=3", {{"report_dir", "o"}}) == "overhead=3:report_dir=o");
  CHECK(with_overrides("level=watch:overhead=3", {{"level", "stacks"}, {"report_dir", "o"}}) ==
        "overhead=3:level=stacks:report_dir=o");
}

TEST_CASE("colons are escaped and the user's escapes stay", "[tools]") {
  CHECK(with_overrides("metrics_file=a\\:b", {{"report_dir", "c:d"}}) ==
        "metrics_file=a\\:b:report_dir=c\\:d");
}

TEST_CASE("each rank gets its place among the ranks", "[tools]") {
  const char* const before[] = {"A=1", "RANK=9", "RANKS=x", nullptr};
  const auto ranks = rank_environments({ProcessEnvironment(before), 2, 4242});
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[1].get("RANK") == "1");
  CHECK(ranks[1].get("LOCAL_RANK") == "1");
  CHECK(ranks[1].get("WORLD_SIZE") == "2");
  CHECK(ranks[1].get("MASTER_ADDR") == "127.0.0.1");
  CHECK(ranks[1].get("MASTER_PORT") == "4242");
  CHECK(ranks[1].get("A") == "1");
  CHECK(ranks[1].get("RANKS") == "x");
}

TEST_CASE("the preload library is found beside the executable", "[tools]") {
  const TemporaryDir dir;
  std::filesystem::create_directories(dir / "bin");
  CHECK(find_preload(dir / "bin", {"../lib"}).problem.find("was not found") != std::string::npos);
  std::filesystem::create_directories(dir / "lib");
  std::ofstream(dir / "lib/libddpscope_preload.so") << "x";
  CHECK(find_preload(dir / "bin", {"../lib"}).path ==
        std::filesystem::canonical(dir / "lib/libddpscope_preload.so"));
}

TEST_CASE("a path that LD_PRELOAD cannot name is refused", "[tools]") {
  const TemporaryDir dir;
  std::filesystem::create_directories(dir / "a b");
  std::ofstream(dir / "a b/libddpscope_preload.so") << "x";
  const auto search = find_preload(dir / "a b", {"."});
  CHECK(search.path.empty());
  CHECK(search.problem.find("LD_PRELOAD") != std::string::npos);
}

TEST_CASE("the preload library stands before others", "[tools]") {
  ProcessEnvironment environment;
  add_preload(environment, "/p.so");
  CHECK(environment.get("LD_PRELOAD") == "/p.so");
  environment.set("LD_PRELOAD", "/q.so");
  add_preload(environment, "/p.so");
  CHECK(environment.get("LD_PRELOAD") == "/p.so:/q.so");
}

TEST_CASE("AddressSanitizer may stand behind the preload library", "[tools]") {
  ProcessEnvironment environment;
  environment.set("ASAN_OPTIONS", "");
  add_preload(environment, "/p.so");
  CHECK(environment.get("ASAN_OPTIONS") == "verify_asan_link_order=0");
  environment.set("ASAN_OPTIONS", "detect_leaks=0");
  add_preload(environment, "/p.so");
  CHECK(environment.get("ASAN_OPTIONS") == "detect_leaks=0:verify_asan_link_order=0");
  environment.set("ASAN_OPTIONS", "verify_asan_link_order=1");
  add_preload(environment, "/p.so");
  CHECK(environment.get("ASAN_OPTIONS") == "verify_asan_link_order=1");
}
