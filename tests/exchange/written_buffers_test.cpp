// Buffers that differ before the first step, and who wrote them.
#include <array>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::written_buffers_test {

TEST_CASE("a buffer that was equal at attach and that each step writes did not begin apart",
          "[compare]") {
  using Words = std::vector<std::uint64_t>;  // of one buffer, on two ranks
  const auto first_step = [](const Words& at_attach, const Words& later) {
    TestRun run(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const std::uint64_t own = rank + 1;
      run[rank].list(test_list());
      if (!at_attach.empty()) put_words(run[rank], -1, {0, 0, 0, at_attach[rank]});
      put_words(run[rank], 0, {5, 5, 5, own});
      if (!later.empty()) put_words(run[rank], 2, {0, 0, 0, later[rank]});
      run[rank].digest({.step = 0, .parameters = 5, .buffers = own});
    }
    const RanksComparedEvent event = run.compared();
    REQUIRE(event.cohorts[0].values.size() == 1);
    return event.cohorts[0].values[0].step;
  };
  CHECK(first_step({7, 7}, {8, 9}) == 1);
  CHECK(first_step({7, 7}, {}) == 1);      // as far as is known
  CHECK(first_step({7, 7}, {1, 9}) == 0);  // rank 0 does not write it
  CHECK(first_step({7, 6}, {8, 9}) == 0);
  CHECK(first_step({0, 0}, {8, 9}) == 0);  // not known
  CHECK(first_step({}, {8, 9}) == 0);
}

namespace {
/// Two ranks of which these two buffers differ before the first step. `bn.running_mean` was equal
/// at attach, the other one had the bits `at_attach` there.
ValuesDiffer values_beside(const std::string& other,
                           const std::array<std::uint64_t, 2>& at_attach) {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::uint64_t own = rank + 1;
    TensorList list = test_list();
    list.tensors.push_back(list.tensors.back());
    list.tensors.back().path = other;
    run[rank].list(list);
    put_words(run[rank], -1, {0, 0, 0, 7, at_attach[rank]});
    put_words(run[rank], 0, {5, 5, 5, own, own});
    run[rank].digest({.step = 0, .parameters = 5, .buffers = own});
  }
  return run.compared().cohorts.at(0).values.at(0);
}
}  // namespace

TEST_CASE("beside a buffer that began apart those that forward writes are not told", "[compare]") {
  const ValuesDiffer values = values_beside("mask", {1, 2});
  CHECK(values.step == 0);
  CHECK(values.differing == 1);
  REQUIRE(values.tensors.size() == 1);
  CHECK(values.tensors[0].path == "mask");
}

TEST_CASE("statistics of batch norm that one rank set by hand began apart", "[compare]") {
  const ValuesDiffer values = values_beside("bn.num_batches_tracked", {7, 7});
  CHECK(values.step == 0);
  CHECK(values.differing == 2);
}

}  // namespace ddpscope::test::written_buffers_test
