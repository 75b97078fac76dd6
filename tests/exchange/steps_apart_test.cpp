// Ranks whose steps are others.
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::steps_apart_test {
namespace {
/// The first rank lists another model, or both do; it has an optimizer of it from step 2 on. The
/// fingerprints of all parameters differ from `since` on.
Cohort compared(bool is_on_both, std::int64_t since) {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::uint64_t is_first = rank == 0;
    run[rank].list(test_list());
    if (is_on_both || is_first) run[rank].list(test_list(), 0, /*model=*/1);
    for (const std::int64_t step : {0, 1, 2, 3}) {
      const bool has_two = is_first && step >= 2;
      run[rank].digest({.step = step,
                        .structure = 1 + (is_on_both ? 0 : is_first),
                        .optimizers = has_two ? 8U : 7U,
                        .parameters = 5 + (step >= since ? rank : 0),
                        .groups = has_two ? 2 : 1,
                        .members = has_two ? 4 : 2});
    }
  }
  return run.compared().cohorts.at(0);
}

bool differs_in(const Cohort& cohort, DigestField field) {
  return std::ranges::find(cohort.digests, field, &DigestsDiffer::field) != cohort.digests.end();
}
}  // namespace

TEST_CASE("a model of one rank alone is told apart from one that differs", "[compare]") {
  const Cohort cohort = compared(/*is_on_both=*/false, /*since=*/9);
  REQUIRE(cohort.models.size() == 1);
  CHECK(cohort.models[0].is_of_some);
  CHECK(cohort.models[0].cause == "count");
}

TEST_CASE("once a rank trains a model of its own, steps are not compared", "[compare]") {
  const Cohort cohort = compared(/*is_on_both=*/false, /*since=*/3);
  CHECK(cohort.values.empty());
  CHECK(!differs_in(cohort, DigestField::kMembers));
  CHECK(differs_in(cohort, DigestField::kStructure));
}

TEST_CASE("before a rank trains a model of its own, steps are compared", "[compare]") {
  CHECK(compared(/*is_on_both=*/false, /*since=*/1).values.size() == 1);
}

TEST_CASE("a second optimizer of one rank is told where all have its model", "[compare]") {
  const Cohort cohort = compared(/*is_on_both=*/true, /*since=*/3);
  CHECK(cohort.models.empty());
  CHECK(cohort.values.size() == 1);
  CHECK(differs_in(cohort, DigestField::kMembers));
}

TEST_CASE("steps of a rank that leaves them to another one are not compared", "[compare]") {
  const std::uint64_t sent = GENERATE(0, 4, 64);  // 4: buffers alone
  const bool is_sent = sent == 64;
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].at_step(3);
    run[rank].reduce("fc1", /*elements=*/64);
    if (sent > 0) run[rank].call({.elements = sent, .kind = CollectiveKind::kBroadcast});
    for (const std::int64_t step : {0, 1, 2, 3}) {
      const std::uint64_t apart = step > 0 ? rank : 0;
      run[rank].digest({.step = step,
                        .parameters = 5 + apart,
                        .optimizer_steps = static_cast<std::int32_t>(rank == 0 ? step : 0),
                        .skipped_steps = static_cast<std::int32_t>(63 * apart)});
    }
  }
  const Cohort cohort = run.compared().cohorts.at(0);
  CHECK(differs_in(cohort, DigestField::kSkippedSteps) != is_sent);
  CHECK(differs_in(cohort, DigestField::kParameters) != is_sent);
}

// The first rank was ended in the collectives of a step that the other had left.
TEST_CASE("a step that a rank is ended in is compared, but for what ends it", "[compare]") {
  const std::int32_t step = GENERATE(1, 41);
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].at_step(step);
    run[rank].call({.elements = 64, .kind = CollectiveKind::kBroadcast});
    run[rank].reduce("fc1", /*elements=*/64);
    const bool is_ended = rank == 0;
    run[rank].digest({.step = step,
                      .gradients = is_ended ? 7U : 3U,
                      .optimizer_steps = is_ended ? step - 1 : step,
                      .skipped_steps = is_ended ? 0 : 1,
                      .backwards = step,
                      .phase = is_ended ? Phase::kReduce : Phase::kOptimizer});
  }
  const Cohort cohort = run.compared().cohorts.at(0);
  CHECK(differs_in(cohort, DigestField::kGradients));
  CHECK(!differs_in(cohort, DigestField::kOptimizerSteps));
  CHECK(!differs_in(cohort, DigestField::kSkippedSteps));
}

namespace {
/// So many averages in steps of two ranks, of which the second leaves out steps `from` to `to`.
Cohort with_averages(std::int32_t steps, std::int32_t from, std::int32_t to,
                     const TestCall& other = {.elements = 1}, bool steps_alone = false) {
  TestRun run(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    run[rank].list(test_list());
    std::int32_t step = 1;
    for (std::int32_t i = 1; i <= steps; ++i) {
      run[rank].at_step(step);
      run[rank].call({.owner = "fc1.weight.grad", .elements = 32});
      run[rank].call(other);
      const bool is_chosen = rank == 1 && i >= from && i <= to;
      StepDigest digest{.step = step, .structure = 7, .call_count = 2 * i, .averages = true};
      if (is_chosen && !steps_alone) continue;
      run[rank].digest(digest);
      digest.step = ++step;
      if (is_chosen) run[rank].digest(digest);
      step += is_chosen;
    }
  }
  return run.compared().cohorts.at(0);
}

const DigestsDiffer* in_steps(const Cohort& cohort) {
  const auto found =
      std::ranges::find(cohort.digests, DigestField::kOptimizerSteps, &DigestsDiffer::field);
  return found == cohort.digests.end() ? nullptr : &*found;
}
}  // namespace

TEST_CASE("a rank that averages with others and does not step is told by its calls", "[compare]") {
  const Cohort cohort = with_averages(20, 6, 8);
  const DigestsDiffer* const differ = in_steps(cohort);
  REQUIRE(differ != nullptr);
  CHECK(differ->step == 6);
  CHECK(differ->sides == std::vector<RankSide>{{"17", {1}}, {"20", {0}}});
}

TEST_CASE("ranks whose calls fall into equal steps make as many", "[compare]") {
  SECTION("all along") { CHECK(in_steps(with_averages(20, 99, 99)) == nullptr); }
  SECTION("or are behind for a moment") { CHECK(in_steps(with_averages(20, 19, 20)) == nullptr); }
  SECTION("or one steps without a call as well") {
    CHECK(in_steps(with_averages(20, 6, 8, {.elements = 1}, /*steps_alone=*/true)) == nullptr);
  }
  SECTION("or make weights equal by broadcasts") {
    const TestCall all = {.elements = 56, .kind = CollectiveKind::kBroadcast};
    CHECK(in_steps(with_averages(20, 6, 8, all)) == nullptr);
  }
}

}  // namespace ddpscope::test::steps_apart_test
