// Ranks that take no step and are sent the weights of those that do.
#include "exchange/sent_compare.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::sent_compare_test {
namespace {
constexpr std::uint64_t kHead = 40;  // of fc1.bias in the first step

/// Of fc1.weight, fc1.bias and fc2.weight.
std::vector<std::uint64_t> words_in(std::int64_t step) {
  const auto number = static_cast<std::uint64_t>(step);
  return {1000 + number, kHead + number, 3000 + number, 4};
}

struct Sent {
  std::int64_t steps = 12;
  std::int64_t behind = 0;    ///< steps of the leading rank that were before the first of the other
  bool stays = true;          ///< fc1.bias on the other rank
  bool moves_itself = false;  ///< fc2.weight is changed there
  std::string gradients = "\x07";
  std::int32_t own_steps = 0;
  bool all_stay = false;       ///< of the other rank
  std::uint64_t is_sent = 0;   ///< elements in each step
  std::uint64_t is_given = 0;  ///< likewise

  RanksComparedEvent compared() const {
    TestRun run(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      run[rank].list(test_list());
      for (std::int64_t step = 0; step < steps; ++step) {
        const std::int64_t leading = rank == 0 || step == 0 ? step : step + behind;
        std::vector<std::uint64_t> words = words_in(leading);
        if (rank == 1 && stays) words[1] = kHead;
        if (rank == 1 && moves_itself) words[2] += 500;
        if (rank == 1 && all_stay) words = words_in(0);
        put_words(run[rank], step, words);
        run[rank].at_step(static_cast<std::int32_t>(step));
        if (rank == 1) exchange(run[rank]);
      }
      run[rank].writer.put(Blob{BlobKind::kGradients, 0, 1, rank == 0 ? "\x07" : gradients});
      const auto taken = rank == 0 ? static_cast<std::int32_t>(steps) : own_steps;
      run[rank].digest({.step = steps, .structure = 7, .optimizer_steps = taken});
    }
    return run.compared();
  }
  void exchange(TestRank& rank) const {
    if (is_sent > 0) rank.call({.elements = is_sent, .kind = CollectiveKind::kSend});
    if (is_given > 0) rank.call({.elements = is_given, .kind = CollectiveKind::kReceive});
  }
  bool is_told() const { return compared().cohorts.at(0).never_sent.has_value(); }
};
}  // namespace

TEST_CASE("what a rank that steps nothing is never sent is known", "[compare]") {
  const std::int64_t behind = GENERATE(0, 2);
  const auto sent = Sent{.behind = behind}.compared().cohorts.at(0).never_sent;
  REQUIRE(sent.has_value());
  CHECK(sent->step == 1);
  CHECK(sent->compared == 3);
  CHECK(sent->differing == 1);
  REQUIRE(sent->tensors.size() == 1);
  CHECK(sent->tensors[0].path == "fc1.bias");
  REQUIRE(sent->sides.size() == 2);
  CHECK(sent->sides[0].ranks == RankList{1});
  CHECK(sent->sides[1].ranks == RankList{0});
}

TEST_CASE("what is sent, unused or changed there is not taken for left out", "[compare]") {
  CHECK(Sent{}.is_told());
  CHECK_FALSE(Sent{.stays = false}.is_told());
  CHECK_FALSE(Sent{.moves_itself = true}.is_told());
  CHECK_FALSE(Sent{.gradients = "\x05"}.is_told());
  CHECK_FALSE(Sent{.steps = 8}.is_told());
  CHECK_FALSE(Sent{.own_steps = 5}.is_told());
}

TEST_CASE("a rank that takes none of the weights over that it is given is known", "[compare]") {
  constexpr std::uint64_t kAll = 56;  // elements of test_list() that train
  Sent sent{.all_stay = true, .is_sent = kAll, .is_given = kAll};
  const auto told = sent.compared().cohorts.at(0).never_sent;
  REQUIRE(told.has_value());
  CHECK(told->differing == 3);
  CHECK(told->compared == 3);
  sent.is_given = kAll / 2;
  CHECK_FALSE(sent.is_told());
  sent.is_given = kAll;
  sent.is_sent = 0;
  CHECK_FALSE(sent.is_told());
  sent.is_sent = kAll;
  sent.gradients = "\x05";
  CHECK_FALSE(sent.is_told());
}

}  // namespace ddpscope::test::sent_compare_test
