// From which step on ranks say different things.
#include <algorithm>
#include <fstream>

#include "exchange/ring_layout.h"
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::digest_walk_test {
namespace {
StepDigest digest_of(std::int64_t step) {
  return {.step = step,
          .cycle = step,
          .structure = 11,
          .gradients = 12,
          .optimizers = 13,
          .parameters = step % 4 == 0 ? static_cast<std::uint64_t>(100 + step) : 0,
          .learning_rate = 0.1,
          .optimizer_steps = static_cast<std::int32_t>(step),
          .forwards = static_cast<std::int32_t>(step),
          .backwards = static_cast<std::int32_t>(step),
          .members = 4};
}

/// Steps 0 to `last` of all ranks; `change` may edit a rank's digest.
template <class Change>
void put_steps(TestRun& run, std::int64_t last, Change change) {
  for (std::int64_t step = 0; step <= last; ++step) {
    std::int64_t number = 0;
    for (auto& rank : run) {
      StepDigest digest = digest_of(step);
      change(number++, digest);
      rank->pass_ms(20);
      rank->digest(digest);
    }
  }
}

Cohort only(const RanksComparedEvent& event) {
  REQUIRE(event.cohorts.size() == 1);
  return event.cohorts[0];
}

const DigestsDiffer* find(const Cohort& cohort, DigestField field) {
  const auto found = std::ranges::find(cohort.digests, field, &DigestsDiffer::field);
  return found == cohort.digests.end() ? nullptr : &*found;
}
}  // namespace

TEST_CASE("ranks that agree say nothing; what they have in common is told", "[compare]") {
  TestRun run(3);
  put_steps(run, 20, [](std::int64_t, StepDigest& digest) { digest.averages = true; });
  const Cohort cohort = only(run.compared());
  CHECK(cohort.digests.empty());
  CHECK(cohort.ranks == RankList{0, 1, 2});
  CHECK(cohort.compared_steps == 21);
  CHECK(cohort.averages);
  CHECK(cohort.equal_at_start);
  CHECK(cohort.median_step_ms == 20);
  REQUIRE(cohort.counts.size() == 3);
  CHECK(cohort.counts[2].rank == 2);
  CHECK(cohort.counts[2].optimizer_steps == 20);
}

TEST_CASE("a difference is told from its first step on, the smaller side first", "[compare]") {
  TestRun run(4);
  put_steps(run, 30, [](std::int64_t rank, StepDigest& digest) {
    const bool is_other = digest.step >= 12 || digest.step == 5;
    if (rank == 2 && is_other) digest.learning_rate = 0.01;
  });
  const Cohort cohort = only(run.compared());
  const DigestsDiffer* rate = find(cohort, DigestField::kLearningRate);
  REQUIRE(rate != nullptr);
  CHECK(cohort.digests.size() == 1);
  CHECK(rate->step == 12);
  CHECK(rate->first_step == 5);
  CHECK(rate->last_step == 30);
  CHECK(rate->equal_until == 11);
  CHECK(rate->consecutive == 19);
  CHECK(rate->differing == 19);
  CHECK(rate->compared == 19);
  REQUIRE(rate->sides.size() == 2);
  CHECK(rate->sides[0].value == "0.01");
  CHECK(rate->sides[0].ranks == RankList{2});
  CHECK(rate->sides[1].value == "0.1");
  CHECK(rate->sides[1].ranks == RankList{0, 1, 3});
}

TEST_CASE("a rank that was ended while it wrote a step is named with the others", "[compare]") {
  TestRun run(3);
  put_steps(run, 30, [](std::int64_t rank, StepDigest& digest) {
    digest.learning_rate = 0.1 / static_cast<double>(rank + 1);
  });
  std::fstream file(run.dir() + "/rank-1.ring", std::ios::binary | std::ios::in | std::ios::out);
  const std::uint64_t begun = 32;  // of 31
  file.seekp(ring::kDigestCount)
      .write(reinterpret_cast<const char*>(&begun), sizeof(begun))
      .flush();
  const Cohort cohort = only(run.compared());
  const DigestsDiffer* rate = find(cohort, DigestField::kLearningRate);
  REQUIRE(rate != nullptr);
  CHECK(rate->sides.size() == 3);
}

TEST_CASE("skips that are counted late are dated by the backwards of these ranks", "[compare]") {
  const bool are_these = GENERATE(true, false);
  TestRun run(3);
  put_steps(run, 20, [are_these](std::int64_t rank, StepDigest& digest) {
    if (rank == 1 && digest.step >= 4) digest.skipped_steps = 1;
    const std::int64_t more = are_these ? 1 : 2;
    if (rank == more && digest.step >= 1) ++digest.backwards;
  });
  const Cohort cohort = only(run.compared());
  const DigestsDiffer* skipped = find(cohort, DigestField::kSkippedSteps);
  REQUIRE(skipped != nullptr);
  CHECK(skipped->step == (are_these ? 1 : 4));
  CHECK(skipped->first_step == skipped->step);
}

TEST_CASE("two steps in a row count before a single one that passed", "[compare]") {
  TestRun run(2);
  put_steps(run, 30, [](std::int64_t rank, StepDigest& digest) {
    const bool differs = digest.step == 5 || digest.step == 20 || digest.step == 21;
    if (rank == 1 && differs) digest.skipped_steps = 1;
  });
  const Cohort cohort = only(run.compared());
  const DigestsDiffer* skipped = find(cohort, DigestField::kSkippedSteps);
  REQUIRE(skipped != nullptr);
  CHECK(skipped->step == 20);
  CHECK(skipped->consecutive == 2);
  CHECK(skipped->last_step == 21);
  CHECK(skipped->equal_until == 19);
}

TEST_CASE("a single step that differs is told as one", "[compare]") {
  TestRun run(2);
  put_steps(run, 30, [](std::int64_t rank, StepDigest& digest) {
    if (rank == 1 && digest.step == 5) digest.gradients = 99;
  });
  const Cohort cohort = only(run.compared());
  const DigestsDiffer* gradients = find(cohort, DigestField::kGradients);
  REQUIRE(gradients != nullptr);
  CHECK(gradients->step == 5);
  CHECK(gradients->consecutive == 1);
}

TEST_CASE("a fingerprint of 0 is on no side, and steps without any are not compared", "[compare]") {
  TestRun run(3);
  put_steps(run, 30, [](std::int64_t rank, StepDigest& digest) {
    if (rank == 0) digest.parameters = 0;
    if (rank == 2 && digest.step >= 9 && digest.parameters != 0) digest.parameters = 7;
  });
  const Cohort cohort = only(run.compared());
  CHECK_FALSE(cohort.equal_at_start);  // rank 0 did not say
  const DigestsDiffer* values = find(cohort, DigestField::kParameters);
  REQUIRE(values != nullptr);
  CHECK(values->step == 12);
  CHECK(values->equal_until == 8);
  CHECK(values->consecutive == 5);
  REQUIRE(values->sides.size() == 2);
  CHECK(values->sides[0].ranks == RankList{2});
  CHECK(values->sides[1].ranks == RankList{1});
}

TEST_CASE("steps that not all ranks have are not compared, but counts at the ends are",
          "[compare]") {
  TestRun run(2);
  for (std::int64_t step = 0; step <= 10; ++step) {
    run[0].digest(digest_of(step));
    StepDigest other = digest_of(step);
    if (step > 5) continue;
    run[1].digest(other);
  }
  const Cohort cohort = only(run.compared());
  CHECK(cohort.digests.empty());
  CHECK(cohort.compared_steps == 6);
  REQUIRE(cohort.counts.size() == 2);
}

TEST_CASE("a rank without digests does not hide a difference of the others", "[compare]") {
  TestRun run(3);
  for (std::int64_t step = 0; step <= 4; ++step) {
    run[0].digest(digest_of(step));
    StepDigest other = digest_of(step);
    other.members = 3;
    run[2].digest(other);
  }
  CHECK(find(only(run.compared()), DigestField::kMembers) != nullptr);
}

TEST_CASE("the state that optimizers began with is told with its members", "[compare]") {
  TestRun run(3);
  put_steps(run, 4, [](std::int64_t rank, StepDigest& digest) {
    digest.state = rank == 0 ? state_word(0, 7) : state_word(4, 7);
  });
  const Cohort cohort = only(run.compared());
  const DigestsDiffer* state = find(cohort, DigestField::kState);
  REQUIRE(state != nullptr);
  REQUIRE(state->sides.size() == 2);
  CHECK(state->sides[0].value == "none");
  CHECK(state->sides[1].value == "4 members (fingerprint 00000007)");
}

TEST_CASE("a state is not told of optimizers with a part of the parameters", "[compare]") {
  TestRun run(2);
  put_steps(run, 4, [](std::int64_t rank, StepDigest& digest) {
    digest.state = rank == 0 ? state_word(0, 7) : state_word(4, 7);
    digest.members = 0;
  });
  CHECK(only(run.compared()).digests.empty());
}

TEST_CASE("a state that was not read is on no side", "[compare]") {
  TestRun run(2);
  put_steps(run, 4, [](std::int64_t rank, StepDigest& digest) {
    digest.state = rank == 0 ? 0 : state_word(4, 7);
  });
  CHECK(only(run.compared()).digests.empty());
}

TEST_CASE("a rank that saw no optimizer in a step says nothing of its options", "[compare]") {
  TestRun run(2);
  put_steps(run, 8, [](std::int64_t rank, StepDigest& digest) {
    if (rank == 0) digest.loss_scale = 128;
    if (rank == 0 && digest.step == 4) digest.members = 0;  // a part of the parameters
    if (rank == 1 && digest.step % 2 == 1) {
      digest.optimizers = 0;
      digest.learning_rate = 0;
      digest.groups = digest.members = 0;
    }
  });
  CHECK(only(run.compared()).digests.empty());
}

TEST_CASE("a rank that leaves all steps to another one has no number of them", "[compare]") {
  const bool steps_late = GENERATE(true, false);
  TestRun run(2);
  put_steps(run, 6, [&](std::int64_t rank, StepDigest& digest) {
    digest.optimizer_steps = static_cast<std::int32_t>(digest.step);
    if (rank == 1) digest.optimizer_steps = steps_late ? digest.optimizer_steps / 2 : 0;
  });
  const Cohort cohort = only(run.compared());
  const auto* differ = find(cohort, DigestField::kOptimizerSteps);
  REQUIRE((differ != nullptr) == steps_late);
  if (steps_late) CHECK(differ->step == 2);
}

TEST_CASE("what multiplies the losses of ranks by less than 1 is no scale", "[compare]") {
  const double scale = GENERATE(0.25, 256);
  TestRun run(2);
  put_steps(run, 4, [&](std::int64_t rank, StepDigest& digest) {
    digest.loss_scale = scale * static_cast<double>(1 + rank);
  });
  CHECK((find(only(run.compared()), DigestField::kLossScale) != nullptr) == (scale > 1));
}

TEST_CASE("ranks that average with one another are compared apart from others", "[compare]") {
  TestRun run(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    run[rank].enter(group_key(rank < 2 ? 0x1111111100000000 : 0x2222222200000000, 2));
    run[rank].reduce("fc1");
  }
  put_steps(run, 8, [](std::int64_t rank, StepDigest& digest) {
    digest.structure = rank < 2 ? 1 : 2;
    if (rank == 3) digest.learning_rate = 3;
  });
  const RanksComparedEvent event = run.compared();
  REQUIRE(event.cohorts.size() == 2);
  CHECK(event.cohorts[0].ranks == RankList{0, 1});
  CHECK(event.cohorts[0].digests.empty());
  CHECK(event.cohorts[1].ranks == RankList{2, 3});
  CHECK(event.cohorts[1].digests.size() == 1);
  CHECK(event.cohorts[1].averages);
}

TEST_CASE("a rank that never reduced is still compared with those that did", "[compare]") {
  TestRun run(2);
  run[0].reduce("fc1");
  put_steps(run, 8, [](std::int64_t rank, StepDigest& digest) {
    if (rank == 1) digest.structure = 2;
  });
  CHECK(find(only(run.compared()), DigestField::kStructure) != nullptr);
}

TEST_CASE("options of an optimizer that begins to step are known as such", "[compare]") {
  const bool is_new = GENERATE(true, false);
  TestRun run(2);
  put_steps(run, 6, [is_new](std::int64_t rank, StepDigest& digest) {
    digest.groups = is_new && digest.step < 3 ? 1 : 2;
    if (digest.step >= 3) digest.learning_rate = rank == 0 ? 0.1 : 0.2;
  });
  const auto& digests = only(run.compared()).digests;
  const auto rate = std::ranges::find(digests, DigestField::kLearningRate, &DigestsDiffer::field);
  REQUIRE(rate != digests.end());
  CHECK(rate->step == 3);
  CHECK(rate->of_new_optimizer == is_new);
}

}  // namespace ddpscope::test::digest_walk_test
