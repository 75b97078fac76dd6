// Why parameters got no gradient on some ranks, as their rings tell it.
#include "exchange/missing_on_ranks.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::missing_on_ranks_test {

TEST_CASE("why a parameter got no gradient is told by each rank without", "[compare]") {
  TestRun run(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    run[rank].list(test_list());
    run[rank].writer.put(Blob{BlobKind::kGradients, 0, 1, rank == 0 ? "\x07" : "\x03"});
    run[rank].digest({.step = 1, .gradients = rank == 0 ? 8U : 9U});
  }
  run[1].writer.put(Blob{BlobKind::kMissing, 0, 1, encode_missing({"", "", "not_used"})});
  SECTION("of this step") {
    run[2].writer.put(Blob{BlobKind::kMissing, 0, 1, encode_missing({"", "", "cut"})});
    const auto event = run.compared();
    const auto& causes = event.cohorts.at(0).gradients.at(0).parameters.at(0).causes;
    REQUIRE(causes.size() == 2);
    CHECK(causes[0].value == "not_used");
    CHECK(causes[0].ranks == RankList{1});
    CHECK(causes[1].value == "cut");
  }
  SECTION("or not at all, if bytes are none of ours") {
    run[2].writer.put(Blob{BlobKind::kMissing, 0, 1, std::string("\0\0\x7f", 3)});
    const auto event = run.compared();
    CHECK(event.cohorts.at(0).gradients.at(0).parameters.at(0).causes.size() == 1);
  }
}

TEST_CASE("causes that are not known take no place", "[compare]") {
  CHECK(encode_missing({}).empty());
  CHECK(encode_missing({"", "something else"}).empty());
  CHECK(missing_at(encode_missing({"", "result_dropped"}), 1) == "result_dropped");
  CHECK_FALSE(missing_at(encode_missing({"", "result_dropped"}), 0).has_value());
  CHECK_FALSE(missing_at(encode_missing({"", "result_dropped"}), 2).has_value());
}

}  // namespace ddpscope::test::missing_on_ranks_test
