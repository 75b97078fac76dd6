// Ranks that train by themselves and take the weights of one of them now and then.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::one_sender_test {
namespace {
constexpr std::int64_t kElements = 1200;

/// Two ranks part in each even step, and are equal when the odd one after it begins.
struct Sent {
  bool share_batches = false;
  bool averages_at_last = false;
  bool by_turns = false;   ///< broadcast by one and the other
  bool of_part = false;    ///< broadcasts of a half
  bool by_scores = false;  ///< which ranks gather before
  std::int64_t ranks = 2;

  Cohort cohort() const {
    TestRun run(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      run[rank].list({.model = "Net", .tensors = {of("a"), of("b")}});
      run[rank].digest({.step = 0, .structure = 7, .parameters = 5});
      for (std::int32_t step = 1; step <= 9; ++step) {
        run[rank].at_step(step);
        const bool is_equal = step % 2 == 1;
        if (is_equal && step > 1) give(run[rank], step);
        const auto number = static_cast<std::uint64_t>(step);
        run[rank].digest({.step = step,
                          .structure = 7,
                          .parameters = 10 * number + (is_equal ? 0 : rank),
                          .batch = 10 * number + (share_batches ? 0 : rank),
                          .optimizer_steps = step,
                          .backwards = step,
                          .received = 2});
      }
    }
    const RingSet set = open_rings(list_rings(run.dir()), "r1");
    return compare_ranks(set.rings, {.world_size = ranks}).cohorts.at(0);
  }

 private:
  static ListedTensor of(const std::string& path) {
    return {.path = path, .dtype = "float32", .shape = {kElements / 2}, .requires_grad = true};
  }
  void give(TestRank& rank, std::int32_t step) const {
    if (by_scores) rank.call({.elements = 1, .kind = CollectiveKind::kAllGather});
    for (int i = 0; i < (of_part ? 1 : 2); ++i) {
      rank.call({.elements = kElements / 2,
                 .kind = CollectiveKind::kBroadcast,
                 .reduce = ReduceKind::kNone,
                 .root = by_turns ? step / 2 % 2 : 1,
                 .phase = Phase::kForward});
    }
    if (averages_at_last && step == 9) rank.call({.elements = kElements});
  }
};
}  // namespace

TEST_CASE("weights that are those of one rank again and again are known", "[compare]") {
  const Cohort cohort = Sent{}.cohort();
  CHECK(cohort.sent_steps == std::vector<std::int64_t>{3, 5, 7, 9});
  CHECK(cohort.sender == 1);
}

TEST_CASE("weights that may be of several ranks are not told", "[compare]") {
  Sent sent;
  SECTION("of one batch for all") { sent.share_batches = true; }
  SECTION("that are reduced as well") { sent.averages_at_last = true; }
  SECTION("of one rank and then another") { sent.by_turns = true; }
  SECTION("of which a part is sent") { sent.of_part = true; }
  SECTION("chosen by scores") { sent.by_scores = true; }
  SECTION("of ranks of which one left no ring") { sent.ranks = 3; }
  CHECK(sent.cohort().sent_steps.empty());
}

}  // namespace ddpscope::test::one_sender_test
