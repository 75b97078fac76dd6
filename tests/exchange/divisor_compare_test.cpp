// What a sum of two ranks is divided by, and how often it was made.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::divisor_compare_test {
namespace {
/// One backward, of batches of 16 rows.
ReductionStep divided_by(double divisor, double loss_scale = 1, std::int32_t backwards = 1,
                         const std::string& batch = "[16, 4] float32") {
  TwoRanks ranks;
  ranks.batch(batch);
  for (const std::size_t rank : {0, 1}) {
    ranks.put(rank, 1,
              {.before = rank == 0 ? kOne : kOther,
               .after = scaled(kSum, 1 / divisor),
               .weight = 1 / divisor});
  }
  return ranks.compared(2, loss_scale, backwards).at(0);
}
}  // namespace

TEST_CASE("a sum that is divided by a number of nothing has that divisor", "[compare]") {
  const double divisor = GENERATE(3, 5, 7);
  const ReductionStep step = divided_by(divisor);
  CHECK(step.divisor == divisor);
  CHECK(step.weight * divisor == Approx(1).epsilon(0.01));
  CHECK(step.is_counted);
}

TEST_CASE("a sum has no other divisor", "[compare]") {
  SECTION("where it is the number of ranks") { CHECK(divided_by(2).divisor == 0); }
  SECTION("or a multiple of it, as of ranks and backwards") {
    CHECK(divided_by(4).divisor == 0);
    CHECK(divided_by(6, 1, 3).divisor == 0);
  }
  SECTION("or of the backwards") { CHECK(divided_by(3, 1, 3).divisor == 0); }
  SECTION("or as many as a batch may have rows") {
    CHECK(divided_by(31).divisor == 0);
    CHECK(divided_by(5, 1, 1, "[4, 4] float32").divisor == 0);
  }
  SECTION("or no whole number") { CHECK(divided_by(2.5).divisor == 0); }
  SECTION("or where a factor of the loss is known") { CHECK(divided_by(5, 0.1).divisor == 0); }
}

TEST_CASE("gradients that calls sum up twice are known", "[compare]") {
  const int calls = GENERATE(1, 2);
  TwoRanks ranks;
  for (int i = 0; i < calls; ++i) {
    ranks.call({.owner = "fc1.weight.grad", .elements = 12});
    ranks.call({.owner = "fc2.weight.grad", .elements = 12});
  }
  ranks.step(1, kSum, kSum);
  CHECK(ranks.compared().at(0).times_reduced == calls);
}

TEST_CASE("what a mean over own rows leaves is compared where nothing else weighs it",
          "[compare]") {
  const double weight = GENERATE(kOwnWeight, kNoWeight);
  const bool is_sum = GENERATE(true, false);
  const Values after = is_sum ? kSum : Values{0.5, 3, -1, 2};  // no multiple of any sum
  TwoRanks ranks;
  ranks.put(0, 1, {.before = kOne, .after = after, .weight = weight});
  ranks.put(1, 1, {.before = kOther, .after = after, .weight = weight});
  const ReductionStep step = ranks.compared().at(0);
  const bool is_own = weight == kOwnWeight;
  CHECK(step.ratio.has_value() == (is_own && is_sum));
  CHECK(step.not_linear == (is_own ? 0 : 1));
}

TEST_CASE("gathered features are no exchange of gradients", "[compare]") {
  using enum CollectiveKind;
  TensorList list = test_list();
  list.tensors[0].shape = {32, 4};  // of 152 elements in all
  const bool is_feature = GENERATE(true, false);
  TwoRanks ranks(list);
  SECTION("but in a forward") {
    ranks.call({.elements = 96,
                .kind = kAllGather,
                .reduce = ReduceKind::kNone,
                .phase = is_feature ? Phase::kForward : Phase::kReduce});
  }
  SECTION("but of other sizes than parameters have") {
    ranks.call({.elements = is_feature ? 96U : 128U,
                .kind = kAllGather,
                .reduce = ReduceKind::kNone,
                .phase = Phase::kForward});
  }
  SECTION("but where no call reduces them") {
    ranks.call({.elements = 96,
                .kind = is_feature ? kAllGather : kAllReduce,
                .reduce = is_feature ? ReduceKind::kNone : ReduceKind::kSum,
                .phase = Phase::kForward});
  }
  ranks.step(1, kOne, kOther);
  CHECK(ranks.compared().at(0).of_few_numbers == is_feature);
}

}  // namespace ddpscope::test::divisor_compare_test
