// Shares of the data that samplers make and no rank asks for.
#include "exchange/sampler_shares.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::sampler_shares_test {
namespace {
using Unread = std::vector<std::int64_t>;

/// Ranks that tell of their epochs, one in each ten steps.
class Epochs {
 public:
  explicit Epochs(std::size_t ranks) : run_(static_cast<int>(ranks)) {}
  void begin(std::size_t rank, std::int64_t replicas, std::int64_t replica) {
    const std::string text = share_text({.replicas = replicas, .replica = replica});
    run_[rank].writer.put(Blob{.kind = BlobKind::kShare, .step = step_, .bytes = text});
  }
  void next() { step_ += 10; }
  std::vector<UnreadShares> compared(bool live = false) {
    for (auto& rank : run_) rank->digest({.step = 1});
    return run_.compared({.now_unix_ns = live ? 1 : 0}).cohorts.at(0).unread_shares;
  }

 private:
  TestRun run_;
  std::int64_t step_ = 1;
};
}  // namespace

TEST_CASE("A share is told as text", "[compare]") {
  CHECK(share_text({.replicas = 4, .replica = 1}) == "4 1");
  CHECK(share_in("4 1") == SamplerShare{.replicas = 4, .replica = 1});
  const std::string text = GENERATE("", " ", "x", "4", "4 4", "0 0", "4 -1", "4  1", "4 1 ",
                                    "4 1 2", "99999999 1", "99999999999999999999 1");
  CHECK(share_in(text) == SamplerShare{});
}

TEST_CASE("Shares that no rank asks for are unread", "[compare]") {
  Epochs run(2);
  for (int epoch = 0; epoch < 2; ++epoch) {
    run.begin(0, 8, 0);
    run.begin(1, 8, 3);
    run.next();
  }
  const auto unread = run.compared(GENERATE(false, true));
  REQUIRE(unread.size() == 1);
  CHECK(unread[0].step == 1);
  CHECK(unread[0].replicas == 8);
  CHECK(unread[0].unread == Unread{1, 2, 4, 5, 6, 7});
}

TEST_CASE("After one epoch it is known at the end which are", "[compare]") {
  Epochs run(2);
  for (const std::int64_t rank : {0, 1}) run.begin(rank, 3, rank);
  CHECK(run.compared(/*live=*/true).empty());
  CHECK(run.compared().size() == 1);
}

TEST_CASE("No share is unread", "[compare]") {
  const bool live = GENERATE(false, true);
  Epochs run(2);
  run.begin(0, 4, 0);
  SECTION("where each rank asks for several in turn") {
    run.begin(1, 4, 1);
    run.next();
    run.begin(0, 4, 2);
    run.begin(1, 4, 3);
  }
  SECTION("that is known, where they have not asked for all yet") {
    run.begin(1, 4, 1);
    run.next();
    run.begin(0, 4, 2);
    run.begin(1, 4, 2);
  }
  SECTION("that is known, where a rank does not tell") {}
  SECTION("that is known, where ranks share it out in two ways") { run.begin(1, 2, 1); }
  SECTION("where a rank reads all") { run.begin(1, 1, 0); }
  CHECK(run.compared(live).empty());
}

TEST_CASE("Of as many shares as ranks each is read", "[compare]") {
  Epochs run(2);
  run.begin(0, 2, 0);
  run.begin(1, 2, 1);
  CHECK(run.compared().empty());
}

}  // namespace ddpscope::test::sampler_shares_test
