// When a rank says that it used running statistics of its own.
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test {

TEST_CASE("What a rank evaluates or saves is told from then on, and at exit at the latest",
          "[used_statistics]") {
  Rank rank;
  rank.send_large(net());
  const auto saves = GENERATE(true, false);
  const auto use = [&](TensorId tensor) {
    if (!saves) rank.send(EvaluationEvent{});
    if (!saves) return;
    rank.send_large(ArchiveTensorEvent{.access = ArchiveAccess::kWritten, .tensor = tensor});
  };
  if (saves) use(kMean);  // before training it tells nothing
  rank.step();
  if (saves) use(kWeight);  // all ranks have the same
  rank.step();
  CHECK_FALSE(rank.digests.back().evaluated);
  use(kMean);
  if (GENERATE(true, false)) {
    rank.step();
  } else {
    rank.send(ExitEvent{});
    CHECK(rank.digests.back().step == 2);
  }
  CHECK(rank.digests.back().evaluated);
  const std::size_t told = rank.digests.size();
  rank.send(ExitEvent{});
  CHECK(rank.digests.size() == told);
}

TEST_CASE("What was exchanged since the last step does not depend on the rank",
          "[used_statistics]") {
  Rank rank;
  rank.send_large(net());
  rank.step();
  const bool averages = GENERATE(true, false);
  rank.send_large(CollectiveEvent{.at = rank.now(), .averages = averages, .elements = 100});
  if (GENERATE(true, false)) rank.step();
  const bool was_exchanged = !averages && rank.digests.back().step == 1;
  rank.send(EvaluationEvent{});
  rank.step();
  CHECK(rank.digests.back().evaluated != was_exchanged);
}

}  // namespace ddpscope::test
