#include "exchange/nonfinite_compare.h"

#include <map>

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::nonfinite_compare_test {
namespace {
const ToldNonfinite kTold{.nan_count = 1,
                          .inf_count = 2,
                          .model = "Net",
                          .path = "head.3.weight",
                          .what = "3 of 64 elements are NaN or Inf"};

/// Steps in which ranks told of one.
std::vector<NonfiniteOrigin> origin_of(const std::map<std::size_t, std::int64_t>& steps) {
  TestRun run(3);
  for (auto& rank : run) rank->digest({.step = 1, .averages = true});
  for (const auto& [rank, step] : steps) {
    const std::string bytes = encode(kTold);
    run[rank].writer.put(
        Blob{.kind = BlobKind::kNonfinite, .number = 0, .step = step, .bytes = bytes});
  }
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 1);
  return event.cohorts[0].nonfinite;
}
}  // namespace

TEST_CASE("the rank whose gradient was not finite first is told", "[compare]") {
  const auto origin = origin_of({{0, 7}, {2, 6}, {1, 7}});
  REQUIRE(origin.size() == 1);
  CHECK(origin[0].step == 6);
  CHECK(origin[0].ranks == RankList{2});
  CHECK(origin[0].nan_count == 1);
  CHECK(origin[0].inf_count == 2);
  CHECK(origin[0].model == "Net");
  CHECK(origin[0].path == "head.3.weight");
  CHECK(origin[0].what == "3 of 64 elements are NaN or Inf");
}

TEST_CASE("all ranks that had one in the first step are told", "[compare]") {
  const auto origin = origin_of({{0, 6}, {2, 6}, {1, 9}});
  REQUIRE(origin.size() == 1);
  CHECK(origin[0].ranks == RankList{0, 2});
}

TEST_CASE("ranks whose gradients are finite have no such origin", "[compare]") {
  CHECK(origin_of({}).empty());
}

TEST_CASE("what is no record of such a gradient is refused", "[compare]") {
  const std::string whole = encode(kTold);
  REQUIRE(decode_nonfinite(whole).has_value());
  CHECK(decode_nonfinite(whole)->path == kTold.path);
  CHECK_FALSE(decode_nonfinite(whole.substr(0, 15)).has_value());
  CHECK_FALSE(decode_nonfinite(whole.substr(0, 22)).has_value());
  CHECK_FALSE(decode_nonfinite(std::string(16, '\xff') + "a\nb\nc").has_value());
}

}  // namespace ddpscope::test::nonfinite_compare_test
