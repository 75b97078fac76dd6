// Ranks that step a part of the parameters each, with or without the gradients of the others.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::unreduced_parts_test {
namespace {
constexpr std::int64_t kElements = 1200;

struct Parted {
  TestCall gather = {.elements = kElements / 2,
                     .kind = CollectiveKind::kAllGather,
                     .reduce = ReduceKind::kNone,
                     .phase = Phase::kForward};
  std::vector<TestCall> besides;  ///< in each step, before the optimizer
  bool by_broadcasts = false;
  bool share_batches = false;
  std::int32_t received = 2;
  bool stay_equal = true;

  std::vector<std::int64_t> steps() const {
    TestRun run(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      run[rank].list({.model = "Net", .tensors = {of("a"), of("b")}});
      run[rank].digest({.step = 0, .structure = 7, .parameters = 5});
      for (std::int32_t step = 1; step <= 6; ++step) {
        run[rank].at_step(step);
        if (step > 1) give(run[rank]);
        for (const TestCall& call : besides) run[rank].call(call);
        const auto number = static_cast<std::uint64_t>(step);
        run[rank].digest({.step = step,
                          .structure = 7,
                          .parameters = 10 * number + (stay_equal ? 0 : rank),
                          .batch = 10 * number + (share_batches ? 0 : rank),
                          .optimizer_steps = step,
                          .backwards = step,
                          .received = received});
      }
    }
    return run.compared().cohorts.at(0).unreduced_parts;
  }

 private:
  static ListedTensor of(const std::string& path) {
    return {.path = path, .dtype = "float32", .shape = {kElements / 2}, .requires_grad = true};
  }
  void give(TestRank& rank) const {
    if (!by_broadcasts) return rank.call(gather);
    for (const std::int32_t root : {0, 1}) {
      TestCall call = gather;
      call.kind = CollectiveKind::kBroadcast;
      call.root = root;
      rank.call(call);
    }
  }
};

TestCall of_kind(CollectiveKind kind, Phase phase = Phase::kReduce) {
  return {.elements = kElements / 2, .kind = kind, .phase = phase};
}
}  // namespace

TEST_CASE("parts that are stepped by the gradients of one rank are known", "[compare]") {
  const bool by_broadcasts = GENERATE(false, true);
  const std::vector<std::int64_t> all = {1, 2, 3, 4, 5};
  CHECK(Parted{.by_broadcasts = by_broadcasts}.steps() == all);
  const TestCall loss{.elements = 1};
  CHECK(Parted{.besides = {loss}, .by_broadcasts = by_broadcasts}.steps() == all);
}

TEST_CASE("parts of which gradients may have come from other ranks are no finding", "[compare]") {
  using enum CollectiveKind;
  const CollectiveKind kind = GENERATE(kReduceScatter, kReduce, kAllToAll, kSend, kGather);
  CHECK(Parted{.besides = {of_kind(kind)}}.steps().empty());
  CHECK(Parted{.besides = {of_kind(kind, Phase::kForward)}}.steps().empty());
  CHECK(Parted{.besides = {of_kind(kAllGather)}}.steps().empty());
  CHECK(Parted{.besides = {of_kind(kAllGather, Phase::kForward)}}.steps().empty());
}

TEST_CASE("parts of one computation of all ranks are no finding", "[compare]") {
  CHECK(Parted{.share_batches = true}.steps().empty());
  CHECK(Parted{.received = 1}.steps().empty());
  CHECK(Parted{.stay_equal = false}.steps().empty());
}

}  // namespace ddpscope::test::unreduced_parts_test
