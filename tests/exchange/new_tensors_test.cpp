// Parameters that are registered while the ranks train.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::new_tensors_test {
namespace {
/// Two ranks whose lists grow by their third parameter in a step, and differ in one from step 4 on.
ValuesDiffer compared(std::int64_t grows_in, std::size_t differing) {
  TestRun run(2);
  TensorList before = test_list();
  before.tensors.erase(before.tensors.begin() + 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    if (grows_in > 0) run[rank].list(before);
    run[rank].list(test_list(), grows_in);
    for (const std::int64_t step : {0, 2, 4}) {
      std::vector<std::uint64_t> words = {1, 2, 3, 4};
      if (step == 4) words[differing] += 10 * rank;
      put_words(run[rank], step, words);
      run[rank].digest({.step = step, .parameters = step == 4 ? 5 + rank : 5});
    }
  }
  const auto event = run.compared();
  REQUIRE(event.cohorts.at(0).values.size() == 1);
  return event.cohorts[0].values[0];
}
}  // namespace

TEST_CASE("what was registered right before the step in which ranks differ is new", "[compare]") {
  const ValuesDiffer values = compared(/*grows_in=*/4, /*differing=*/2);
  CHECK(values.equal_until == 2);
  CHECK(values.are_new);
}

TEST_CASE("what an optimizer may have stepped is not new", "[compare]") {
  CHECK_FALSE(compared(/*grows_in=*/3, /*differing=*/2).are_new);
  CHECK_FALSE(compared(/*grows_in=*/2, /*differing=*/2).are_new);
  CHECK_FALSE(compared(/*grows_in=*/0, /*differing=*/2).are_new);
}

TEST_CASE("another parameter than the new one is not new", "[compare]") {
  CHECK_FALSE(compared(/*grows_in=*/4, /*differing=*/0).are_new);
}

TEST_CASE("a model made while ranks train is new, though another one has its paths", "[compare]") {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());
    run[rank].list(test_list(), 4, /*model=*/1);
    for (const std::int64_t step : {0, 2, 4}) {
      put_words(run[rank], step, {1, 2, 3, 4});
      if (step == 4) put_words(run[rank], step, {5 + rank, 6 + rank, 7 + rank, 4}, /*model=*/1);
      run[rank].digest({.step = step, .parameters = step == 4 ? 5 + rank : 5});
    }
  }
  const auto event = run.compared();
  REQUIRE(event.cohorts.at(0).values.size() == 1);
  CHECK(event.cohorts[0].values[0].are_new);
}

}  // namespace ddpscope::test::new_tensors_test
