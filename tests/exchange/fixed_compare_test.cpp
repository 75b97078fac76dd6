// Parameters that a program writes by hand and all ranks use.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::fixed_compare_test {
namespace {
constexpr std::uint32_t kTarget = 1;

/// Two ranks with a model that is trained and equal, and a target that rank 0 alone changes after
/// its first step.
class Targets {
 public:
  std::int64_t changed_from = 4;
  std::int64_t unused_in = -1;  ///< on the second rank
  char received = '\0';         ///< gradients of the target

  std::vector<ValuesDiffer> values() {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      TensorList target = test_list();
      target.model = "Net#2";
      run_[rank].list(test_list());
      run_[rank].list(target, 0, kTarget);
      for (const std::int64_t step : {0, 2, 4, 8}) put_step(rank, step);
    }
    return run_.compared().cohorts.at(0).values;
  }

 private:
  void put_step(std::size_t rank, std::int64_t step) {
    const auto put = [&](BlobKind kind, std::uint32_t model, const std::string& bytes) {
      run_[rank].writer.put(Blob{kind, model, step, bytes});
    };
    const std::uint64_t odd = rank == 1 && step >= changed_from ? 1 : 0;
    for (const std::uint32_t model : {0U, kTarget}) {
      const std::vector<std::uint64_t> words = {1, 2 + model * odd, 3, 4 + rank};  // a buffer last
      std::string bytes(words.size() * 8, '\0');
      std::memcpy(bytes.data(), words.data(), bytes.size());
      put(BlobKind::kFingerprints, model, bytes);
      put(BlobKind::kGradients, model, std::string(1, model == 0 ? '\x07' : received));
    }
    if (rank == 0 || step != unused_in) put(BlobKind::kRan, kTarget, "1");
    run_[rank].digest({.step = step, .structure = 7, .parameters = 5});
  }

  TestRun run_{2};
};
}  // namespace

TEST_CASE("a target that one rank alone changes and all ranks run is told", "[compare]") {
  const auto values = Targets().values();
  REQUIRE(values.size() == 1);
  CHECK(values[0].step == 4);
  CHECK(values[0].equal_until == 2);
  CHECK(values[0].differing == 1);
  CHECK(values[0].compared == 3);
  CHECK(values[0].runs_on_all);
  CHECK(values[0].sides.size() == 2);
  REQUIRE(values[0].tensors.size() == 1);
  CHECK(values[0].tensors[0].model == "Net#2");
  CHECK(values[0].tensors[0].path == "fc1.bias");
  CHECK_FALSE(values[0].tensors[0].requires_grad);
}

TEST_CASE("a model that no gradient reaches is not compared", "[compare]") {
  Targets targets;
  SECTION("where one rank does not run it in each compared step") { targets.unused_in = 8; }
  SECTION("where it has always differed") { targets.changed_from = 0; }
  SECTION("where gradients reach it after all") { targets.received = '\x01'; }
  SECTION("where it stays equal") { targets.changed_from = 100; }
  CHECK(targets.values().empty());
}

}  // namespace ddpscope::test::fixed_compare_test
