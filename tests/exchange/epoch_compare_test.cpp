// Ranks whose epochs have different numbers of batches.
#include "exchange/epoch_compare.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::epoch_compare_test {
namespace {
/// Ranks of which some tell how many batches an epoch has.
class Epochs {
 public:
  explicit Epochs(std::size_t ranks) : run_(static_cast<int>(ranks)) {}
  void begin(std::size_t rank, std::int64_t step, const std::string& batches) {
    run_[rank].writer.put(Blob{.kind = BlobKind::kEpoch, .step = step, .bytes = batches});
  }
  std::vector<EpochsDiffer> compared() {
    for (auto& rank : run_) rank->digest({.step = 1});
    return run_.compared().cohorts.at(0).epochs;
  }

 private:
  TestRun run_;
};
}  // namespace

TEST_CASE("epochs of different lengths that began in one step differ", "[compare]") {
  Epochs run(3);
  run.begin(0, 1, "50");
  run.begin(1, 1, "49");
  run.begin(2, 1, "50");
  const auto epochs = run.compared();
  REQUIRE(epochs.size() == 1);
  CHECK(epochs[0].step == 1);
  CHECK(epochs[0].least == 49);
  REQUIRE(epochs[0].sides.size() == 2);
  CHECK(epochs[0].sides[0].value == "49");
  CHECK(epochs[0].sides[0].ranks == RankList{1});
  CHECK(epochs[0].sides[1].ranks == RankList{0, 2});
}

TEST_CASE("nothing is said of epochs", "[compare]") {
  Epochs run(2);
  run.begin(0, 1, "50");
  SECTION("of the same length") { run.begin(1, 1, "50"); }
  SECTION("that began in different steps") { run.begin(1, 2, "49"); }
  SECTION("of which some ranks do not tell") {}
  SECTION("of which a ring says something else") {
    run.begin(1, 1, GENERATE("", "x", "-3", "0", "49 ", "99999999999999999999", "5000000000"));
  }
  CHECK(run.compared().empty());
}

}  // namespace ddpscope::test::epoch_compare_test
