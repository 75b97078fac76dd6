// Buffers that ranks change apart and make equal before they use them.
#include <functional>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::repaired_buffers_test {
namespace {
constexpr std::int64_t kSteps = 8;
constexpr std::int64_t kCompared[] = {1, 2, 4, 8};

TensorList list_of_two() {
  TensorList list = test_list();
  list.tensors.back().path = "seen";
  list.tensors.push_back(list.tensors.back());
  list.tensors.back().path = "mask";
  return list;
}

/// Two ranks that change both buffers apart in each step, and do `after_step` with the next one in
/// progress.
struct Drift {
  std::function<void(TestRank&, std::int64_t step)> after_step;
  bool evaluates = false;
  bool mask_differs = false;
  std::int64_t first_rank = 0;  ///< that does it

  std::vector<ValuesDiffer> told() const {
    TestRun run(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      TestRank& one = run[rank];
      one.list(list_of_two());
      one.digest({.step = 0, .parameters = 5, .buffers = 6});
      for (std::int64_t step = 1; step <= kSteps; ++step) end_step(one, rank, step);
    }
    return run.compared().cohorts.at(0).values;
  }

 private:
  void end_step(TestRank& one, std::size_t rank, std::int64_t step) const {
    const bool is_compared = std::ranges::count(kCompared, step) > 0;
    const std::uint64_t own = 10 + rank;
    if (is_compared) put_words(one, step, {0, 0, 0, own, mask_differs ? own : 1});
    one.digest({.step = step,
                .parameters = 5,
                .buffers = is_compared ? own : 0,
                .averages = true,
                .evaluated = evaluates});
    one.at_step(static_cast<std::int32_t>(step) + 1);
    if (static_cast<std::int64_t>(rank) >= first_rank) after_step(one, step);
  }
};

TestCall broadcast(const std::string& owner) {
  return {.owner = owner,
          .elements = 8,
          .kind = CollectiveKind::kBroadcast,
          .reduce = ReduceKind::kNone,
          .root = 0,
          .phase = Phase::kForward};
}
TestCall average(const std::string& owner) {
  return {.owner = owner, .elements = 8, .phase = Phase::kForward};
}

bool is_silent(const TestCall& call) {
  return Drift{.after_step = [&](TestRank& rank, std::int64_t) { rank.call(call); }}.told().empty();
}
}  // namespace

TEST_CASE("buffers that all ranks are given after each step do not differ", "[compare]") {
  CHECK(is_silent(broadcast("seen")));
  CHECK(is_silent(average("seen")));
  TestCall flat = average("");
  flat.elements = 16;  // of both
  CHECK(is_silent(flat));
  // What comes after the last step is not known.
  const auto before_forward = [](TestRank& rank, std::int64_t step) {
    if (step < kSteps) rank.call(broadcast("seen"));
  };
  CHECK(Drift{.after_step = before_forward}.told().empty());
}

TEST_CASE("buffers that nobody makes equal differ", "[compare]") {
  CHECK_FALSE(is_silent(broadcast("fc1.weight")));
  CHECK_FALSE(is_silent(average("")));
  TestCall other = average("seen");
  other.phase = Phase::kReduce;  // before the step ends
  CHECK_FALSE(is_silent(other));
  other = average("seen");
  other.kind = CollectiveKind::kAllGather;
  CHECK_FALSE(is_silent(other));
  const auto repair = [](TestRank& rank, std::int64_t) { rank.call(average("seen")); };
  CHECK(Drift{.after_step = repair}.told().empty());
  CHECK_FALSE(Drift{.after_step = repair, .evaluates = true}.told().empty());
  CHECK_FALSE(Drift{.after_step = repair, .first_rank = 1}.told().empty());
  const auto once = [](TestRank& rank, std::int64_t step) {
    if (step == 1) rank.call(average("seen"));
  };
  const auto left = Drift{.after_step = once}.told();
  REQUIRE(left.size() == 1);
  CHECK(left[0].tensors.at(0).path == "seen");
}

TEST_CASE("beside buffers that are made equal the others are told", "[compare]") {
  const auto repair = [](TestRank& rank, std::int64_t) { rank.call(average("seen")); };
  const auto left = Drift{.after_step = repair, .mask_differs = true}.told();
  REQUIRE(left.size() == 1);
  CHECK(left[0].differing == 1);
  REQUIRE(left[0].tensors.size() == 1);
  CHECK(left[0].tensors[0].path == "mask");
}

}  // namespace ddpscope::test::repaired_buffers_test
