#include "config/glob.h"

#include <chrono>
#include <string>

#include "tests/support/catch.h"

using namespace ddpscope;  // NOLINT(google-build-using-namespace)

TEST_CASE("globs match whole texts", "[config]") {
  struct Case {
    std::string pattern;
    std::string text;
    bool matches;
  };
  const Case cases[] = {{"", "", true},
                        {"", "a", false},
                        {"*", "", true},
                        {"*", "a.b", true},
                        {"?", "", false},
                        {"?", "a", true},
                        {"?", "ab", false},
                        {"a*", "ba", false},
                        {"*a", "aab", false},
                        {"*ab", "aab", true},
                        {"a*b*c", "axxbyc", true},
                        {"a*b*c", "axxcyb", false},
                        {"**a**", "xay", true},
                        {"*?", "a", true},
                        {"?*?", "a", false},
                        {"[a]", "a", false},
                        {"[a]", "[a]", true},
                        {"a.b", "axb", false},
                        {"encoder.*", "encoder.bn1", true},
                        {"encoder.*", "encoder", false}};
  for (const auto& one : cases) {
    INFO(one.pattern << " on " << one.text);
    CHECK(glob_match(one.pattern, one.text) == one.matches);
  }
}

TEST_CASE("a glob covers what lies below a path that it matches", "[config]") {
  CHECK(glob_covers("body", "body"));
  CHECK(glob_covers("body", "body.first.weight"));
  CHECK(glob_covers("bo*", "body.first"));
  CHECK_FALSE(glob_covers("body", "bodyguard.first"));
  CHECK_FALSE(glob_covers("first", "body.first"));
  CHECK_FALSE(glob_covers("", "body"));
  CHECK(glob_covers("", ""));
}

TEST_CASE("many stars do not make a match explode", "[config]") {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "a*";
  const std::string text(5000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(glob_match(pattern + "b", text));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("the last match decides whether a check is enabled", "[config]") {
  CHECK(check_enabled("*", "perf-loader"));
  CHECK_FALSE(check_enabled("*,-perf-*", "perf-loader"));
  CHECK(check_enabled("*,-perf-*", "module-unused"));
  CHECK(check_enabled("*, -perf-*, perf-loader", "perf-loader"));
  CHECK_FALSE(check_enabled("perf-loader,-*", "perf-loader"));
  CHECK_FALSE(check_enabled("module-*", "perf-loader"));
  CHECK_FALSE(check_enabled("", "perf-loader"));
}

TEST_CASE("a list that begins with a switched off glob starts from all", "[config]") {
  CHECK(check_enabled("-perf-*", "module-unused"));
  CHECK_FALSE(check_enabled("-perf-*", "perf-loader"));
}

TEST_CASE("a check is named only where its id stands and it is on", "[config]") {
  CHECK(named_without_glob("*,perf-loader", "perf-loader"));
  CHECK_FALSE(named_without_glob("*", "perf-loader"));
  CHECK_FALSE(named_without_glob("perf-*", "perf-loader"));
  CHECK_FALSE(named_without_glob("*,-perf-loader", "perf-loader"));
  CHECK_FALSE(named_without_glob("perf-loader,-perf-*", "perf-loader"));
}

TEST_CASE("declarations are cut at the last equal sign", "[config]") {
  const auto declared = split_declarations("head.* = sharded, a=b=external,,plain");
  REQUIRE(declared.size() == 3);
  CHECK(declared[0].path_glob == "head.*");
  CHECK(declared[0].kind == "sharded");
  CHECK(declared[1].path_glob == "a=b");
  CHECK(declared[1].kind == "external");
  CHECK(declared[2].kind.empty());
  CHECK(known_declaration("not_averaged"));
  CHECK_FALSE(known_declaration(""));
  CHECK_FALSE(known_declaration("Sharded"));
}
