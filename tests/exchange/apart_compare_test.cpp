// Ranks that average within smaller groups alone.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::apart_compare_test {
namespace {
constexpr std::uint64_t kAll = group_key(std::uint64_t{1} << 32, 4);

/// Two pairs of ranks that rank 0 gave one model, and that average by themselves from then on.
class TwoPairs {
 public:
  explicit TwoPairs(std::uint64_t parameters_of_last = 9) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      TestRank& one = run_[rank];
      one.list(test_list());
      one.digest({.step = 0, .structure = 7, .parameters = rank < 3 ? 9 : parameters_of_last});
      one.enter(kAll);
      one.at_step(0);
      one.call({.owner = "fc1.weight", .elements = 56, .kind = CollectiveKind::kBroadcast});
    }
    for (std::int32_t step = 1; step <= 3; ++step) average(step);
  }

  void meet(std::uint64_t elements) {
    for (auto& rank : run_) {
      rank->enter(kAll);
      rank->call({.owner = "bucket", .elements = elements, .kind = CollectiveKind::kAllGather});
    }
  }
  RanksComparedEvent compared(CompareOptions options = {}) const {
    return run_.compared(std::move(options));
  }

 private:
  void average(std::int32_t step) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      TestRank& one = run_[rank];
      const std::uint64_t pair = rank / 2;
      one.enter(group_key((2 + pair) << 32, 2));
      one.at_step(step);
      one.reduce("fc1.weight");
      ToldReductions told{.calls = 1, .gradients = {}};
      told.gradients.push_back({.parameter = 0,
                                .before = sketch_of(kSum),
                                .after = sketch_of(pair == 0 ? kOne : kOther),
                                .fingerprint = 5 + pair});
      one.writer.put(Blob{.kind = BlobKind::kReductions, .step = step, .bytes = encode(told)});
      one.digest({.step = step, .structure = 7, .backwards = step, .averages = true});
    }
  }

  TestRun run_{4};
};
}  // namespace

TEST_CASE("replicas that average within smaller groups alone are compared across them",
          "[compare]") {
  const RanksComparedEvent event = TwoPairs().compared();
  const std::vector<RankList> pairs = {{0, 1}, {2, 3}};
  CHECK(event.cohorts.size() == 2);
  REQUIRE(event.apart.has_value());
  CHECK(event.apart->ranks == RankList{0, 1, 2, 3});
  CHECK(event.apart->parts == pairs);
  REQUIRE(event.apart->reductions.size() == 3);
  CHECK(event.apart->reductions[0].differs_by_part);
}

TEST_CASE("groups that began with different models are not compared across", "[compare]") {
  CHECK_FALSE(TwoPairs(/*parameters_of_last=*/8).compared().apart.has_value());
}

TEST_CASE("groups that exchange a tenth of the parameters are not compared across", "[compare]") {
  TwoPairs run;
  run.meet(8);
  CHECK_FALSE(run.compared().apart.has_value());
}

TEST_CASE("groups that run may exchange something yet", "[compare]") {
  CHECK_FALSE(TwoPairs().compared({.now_unix_ns = kStartNs}).apart.has_value());
}

TEST_CASE("a few numbers of all ranks are no exchange of replicas", "[compare]") {
  TwoPairs run;
  run.meet(1);
  CHECK(run.compared().apart.has_value());
}

}  // namespace ddpscope::test::apart_compare_test
