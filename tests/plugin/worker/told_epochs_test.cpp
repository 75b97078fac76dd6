// What a rank tells the others of the epochs that it trains on.
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test::told_epochs_test {

TEST_CASE("A rank tells the batches of an epoch that it trains on", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  rank.step();
  const Stamp before = {.step = 1, .cycle = 1};
  const bool is_of_step = GENERATE(true, false);
  const std::int64_t rows = GENERATE(24, 32);
  rank.send(BatchRequestEvent{
      .at = is_of_step ? rank.now() : before, .rows = rows, .rows_left = 4 * rows + 1});
  rank.send_large(BatchEvent{.at = rank.now(), .fingerprint = 9, .shape = {24, 10}});
  rank.send_large(BatchEvent{.at = rank.now(), .fingerprint = 9, .shape = {24, 10}});
  const auto told = rank.of(BlobKind::kEpoch);
  if (!is_of_step || rows != 24) {
    CHECK(told.empty());
    return;
  }
  REQUIRE(told.size() == 1);
  CHECK(told[0].step == 2);
  CHECK(told[0].bytes == "5");
}

TEST_CASE("A rank tells the share of an epoch that its sampler makes", "[rank_digest]") {
  Rank rank;
  rank.send_large(net());
  const bool is_shared = GENERATE(false, true);
  if (is_shared) {
    rank.send_large(DeclarationEvent{.model = kNet, .path_glob = "*", .kind = "shared_data"});
  }
  const std::int64_t left = GENERATE(97, 0);
  rank.send(BatchRequestEvent{
      .at = rank.now(), .rows = 24, .rows_left = left, .replicas = 4, .replica = 1});
  rank.send_large(BatchEvent{.at = rank.now(), .fingerprint = 9, .shape = {24, 10}});
  CHECK(rank.of(BlobKind::kEpoch).size() == (left > 0 ? 1 : 0));
  const auto told = rank.of(BlobKind::kShare);
  REQUIRE(told.size() == (is_shared ? 0 : 1));
  if (!is_shared) CHECK(told[0].bytes == "4 1");
}

}  // namespace ddpscope::test::told_epochs_test
