// Which finding over all ranks explains which, of calls that threw and of optimizers that differ.
#include "checks/rank_links.h"
#include "tests/support/catch.h"

namespace ddpscope::test::failure_links_test {
namespace {
Finding finding(const std::string& id, std::int64_t step, std::vector<Fact> facts = {}) {
  Finding one{.id = id, .severity = Severity::kError, .step = step, .facts = std::move(facts)};
  one.fingerprint = id;
  return one;
}

std::string cause_of(Finding cause, Finding effect) {
  link_over_ranks({&effect, &cause});
  return effect.caused_by;
}
}  // namespace

TEST_CASE("a list that a backend refused explains that the rank failed", "[links]") {
  const auto failure = [](const std::string& thrown) {
    return finding("rank-first-failure", 1,
                   {{"first_rank", std::int64_t{0}}, {"exception", thrown}});
  };
  const std::string refused = "c10::Error \"ProcessGroupGloo::allreduce: invalid tensor size\"";
  CHECK(cause_of(finding("collective-multi-tensor", 1), failure(refused)) ==
        "collective-multi-tensor");
  CHECK(cause_of(finding("collective-multi-tensor", 0), failure(refused)).empty());
  CHECK(cause_of(finding("collective-multi-tensor", 1), failure("no such file")).empty());
}

TEST_CASE("a step that one rank left out explains what the others stepped with", "[links]") {
  const auto skip = [](const char* field) {
    return finding("rank-optimizer-differs", 11, {{"field", std::string(field)}});
  };
  const auto nonfinite = [](const std::string& kind, std::int64_t step, const char* cause) {
    return finding("numeric-nonfinite-" + kind, step, {{"cause", std::string(cause)}});
  };
  const Finding averaged = nonfinite("gradient", 11, "after_averaging");
  CHECK(cause_of(skip("skipped_steps"), averaged) == "rank-optimizer-differs");
  CHECK(cause_of(skip("learning_rate"), averaged).empty());
  CHECK_FALSE(cause_of(skip("skipped_steps"), nonfinite("forward", 12, "parameter")).empty());
  CHECK(cause_of(skip("skipped_steps"), nonfinite("forward", 20, "parameter")).empty());
  CHECK(cause_of(skip("skipped_steps"), nonfinite("forward", 11, "operator")).empty());
}

TEST_CASE("the first option that differs tells of the others of that step", "[links]") {
  const auto option = [](const char* field, std::int64_t step) {
    Finding one = finding("rank-optimizer-differs", step, {{"field", std::string(field)}});
    one.fingerprint = field;
    return one;
  };
  CHECK(cause_of(option("learning_rate", 1), option("momentum", 1)) == "learning_rate");
  CHECK(cause_of(option("weight_decay", 1), option("momentum", 1)) == "weight_decay");
  CHECK(cause_of(option("learning_rate", 1), option("momentum", 9)).empty());
  CHECK(cause_of(option("learning_rate", 1), option("skipped_steps", 1)).empty());
}

}  // namespace ddpscope::test::failure_links_test
