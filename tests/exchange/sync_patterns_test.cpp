// Ranks that average after other micro-batches of the same steps.
#include "exchange/sync_patterns.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::sync_patterns_test {
namespace {
using Averaged = std::set<std::int64_t>;

/// Two ranks and four steps, with these patterns from step 1 on.
class Micro {
 public:
  void pattern(std::size_t rank, std::int64_t backwards, const Averaged& averaged,
               std::int64_t step = 1) {
    const std::string text = sync_pattern_text(backwards, averaged);
    run_[rank].writer.put(Blob{.kind = BlobKind::kSyncPattern, .step = step, .bytes = text});
  }

  std::vector<SyncPatternsDiffer> compared() {
    for (auto& rank : run_) {
      for (std::int64_t step = 1; step <= 4; ++step) rank->digest({.step = step});
    }
    return run_.compared().cohorts.at(0).patterns;
  }

 private:
  TestRun run_{2};
};
}  // namespace

TEST_CASE("a pattern names the backwards that were averaged", "[compare]") {
  CHECK(sync_pattern_text(4, {1, 3}) == "4: 1 3");
  CHECK(sync_pattern_text(4, {}) == "4: ");
  CHECK(sync_pattern_text(1, {1}) == "-");
}

TEST_CASE("ranks that average after other micro-batches differ in their patterns", "[compare]") {
  Micro run;
  run.pattern(0, 4, {4});
  run.pattern(1, 4, {1, 3});
  const auto patterns = run.compared();
  REQUIRE(patterns.size() == 1);
  CHECK(patterns[0].step == 1);
  CHECK(patterns[0].steps == 4);
  CHECK(patterns[0].period == 4);
  REQUIRE(patterns[0].sides.size() == 2);
  CHECK(patterns[0].sides[0].value == "1 3");
  CHECK(patterns[0].sides[0].ranks == RankList{1});
  CHECK(patterns[0].sides[1].value == "4");
}

TEST_CASE("nothing is said of patterns", "[compare]") {
  Micro run;
  SECTION("that are the same on all ranks") {
    run.pattern(0, 4, {3});
    run.pattern(1, 4, {3});
  }
  SECTION("that all end with an average") {
    run.pattern(0, 4, {4});
    run.pattern(1, 4, {2, 4});
  }
  SECTION("of other numbers of backwards") {
    run.pattern(0, 4, {4});
    run.pattern(1, 5, {4});
  }
  SECTION("of a rank that averages nothing") {
    run.pattern(0, 4, {3});
    run.pattern(1, 4, {});
  }
  SECTION("that last for one step") {
    run.pattern(0, 4, {4});
    run.pattern(1, 4, {3});
    run.pattern(1, 4, {4}, 2);
  }
  SECTION("of a rank that has left none") { run.pattern(0, 4, {3}); }
  SECTION("of one backward per step") {
    run.pattern(0, 1, {});
    run.pattern(1, 1, {1});
  }
  CHECK(run.compared().empty());
}

}  // namespace ddpscope::test::sync_patterns_test
