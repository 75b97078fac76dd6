#include "checks/spread_nonfinite.h"

#include <algorithm>

#include "model/fingerprint.h"
#include "tests/support/catch.h"
#include "tests/support/compared_ranks.h"

namespace ddpscope::test::spread_nonfinite_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)
constexpr char kForward[] = "numeric-nonfinite-forward";
constexpr char kArrived[] = "numeric-nonfinite-gradient";

Finding found_by(std::int64_t rank, std::int64_t step, const std::string& id,
                 const std::string& cause = "") {
  Finding finding{.id = id,
                  .severity = Severity::kError,
                  .rank = rank,
                  .step = step,
                  .subject = "bias",
                  .why = "averaging spreads it"};
  if (!cause.empty()) finding.facts = {{"cause", cause}};
  finding.fingerprint = fingerprint_of(finding);
  return finding;
}

/// A batch of rank 1 in step 6, and the parameters that all ranks have from then on.
struct Spread {
  Finding batch = found_by(1, 6, kForward, "batch");
  Finding arrived = found_by(1, 6, kArrived);
  Finding read = found_by(0, 7, kForward, "parameter");
  Finding returned = found_by(0, 7, kArrived);

  explicit Spread(const RanksComparedEvent& run = four_ranks(), std::int64_t other_step = 7) {
    read.step = returned.step = other_step;
    arrived.caused_by = batch.fingerprint;
    returned.caused_by = read.fingerprint;
    fold_spread_nonfinite(run, {&read, &returned, &batch, &arrived});
  }
};
}  // namespace

TEST_CASE("what other ranks find after a gradient was averaged follows from it", "[links]") {
  const Spread spread;
  CHECK(spread.read.caused_by == spread.arrived.fingerprint);
  CHECK(spread.returned.caused_by == spread.arrived.fingerprint);
  CHECK(spread.read.causal_role == CausalRole::kCascade);
  CHECK(fact_in(spread.read, "cause") == text_of("other_rank"));
  CHECK(fact_in(spread.returned, "cause") == text_of("other_rank"));
  CHECK(spread.returned.fingerprint != spread.arrived.fingerprint);
  CHECK(spread.returned.fingerprint == fingerprint_of(spread.returned));
  CHECK(spread.arrived.caused_by == spread.batch.fingerprint);
  CHECK(spread.batch.caused_by.empty());
  CHECK(spread.batch.causal_role == CausalRole::kInitiating);
  CHECK(fact_in(spread.batch, "cause") == text_of("batch"));
}

TEST_CASE("what was averaged before it was looked at follows from its step", "[links]") {
  Finding arrived = found_by(1, 6, kArrived);
  Finding averaged = found_by(0, 6, kArrived, "after_averaging");
  fold_spread_nonfinite(four_ranks(), {&averaged, &arrived});
  CHECK(averaged.caused_by == arrived.fingerprint);
  CHECK(fact_in(arrived, "origin_ranks") == ranks_of({1}));
}

TEST_CASE("no rank is named after a step that nobody looked at before its average", "[links]") {
  Finding averaged = found_by(1, 6, kArrived, "after_averaging");
  Finding later = found_by(0, 7, kArrived);
  fold_spread_nonfinite(four_ranks(), {&averaged, &later});
  CHECK(std::ranges::count(later.facts, "origin_ranks", &Fact::key) == 0);
}

TEST_CASE("the first of them says on which ranks it was so", "[links]") {
  const Spread spread;
  CHECK(fact_in(spread.arrived, "origin_ranks") == ranks_of({1}));
  CHECK(spread.arrived.why == "averaging spreads it; of ranks 0-3 it was so on rank 1 alone");
  CHECK(fact_in(spread.returned, "origin_ranks") == text_of("absent"));
}

TEST_CASE("what follows from a renamed finding of that rank still does", "[links]") {
  Finding arrived = found_by(1, 6, kArrived);
  Finding read = found_by(0, 7, kForward, "parameter");
  Finding edge = found_by(0, 7, "numeric-risky-domain");
  edge.caused_by = read.fingerprint;
  fold_spread_nonfinite(four_ranks(), {&edge, &arrived, &read});
  CHECK(edge.caused_by == read.fingerprint);
}

TEST_CASE("findings of one step on several ranks are origins together", "[links]") {
  Finding one = found_by(1, 6, kArrived);
  Finding two = found_by(2, 6, kArrived);
  Finding late = found_by(3, 7, kArrived);
  fold_spread_nonfinite(four_ranks(), {&late, &two, &one});
  CHECK(fact_in(one, "origin_ranks") == ranks_of({1, 2}));
  CHECK(one.fingerprint == two.fingerprint);
  CHECK(two.caused_by.empty());
  CHECK(late.caused_by == one.fingerprint);
}

TEST_CASE("a step that is bad on every rank points at what they share", "[links]") {
  std::vector<Finding> findings;
  for (std::int64_t rank = 0; rank < 4; ++rank) findings.push_back(found_by(rank, 6, kArrived));
  fold_spread_nonfinite(four_ranks(), {&findings[0], &findings[1], &findings[2], &findings[3]});
  CHECK(findings[3].why.find("every rank had one") != std::string::npos);
  CHECK(findings[3].caused_by.empty());
}

TEST_CASE("the norm of gradients into which it was averaged follows from it", "[links]") {
  const std::int64_t step = GENERATE(5, 6, 7, 8);
  Finding arrived = found_by(1, 6, kArrived);
  Finding clipped = found_by(0, step, "clip-nonfinite-norm");
  Finding own = found_by(1, step, "clip-nonfinite-norm");
  fold_spread_nonfinite(four_ranks(), {&clipped, &own, &arrived});
  const bool follows = step == 6 || step == 7;
  CHECK(clipped.caused_by == (follows ? arrived.fingerprint : ""));
  CHECK(own.caused_by.empty());
  CHECK(clipped.fingerprint == own.fingerprint);
}

TEST_CASE("what steps do to parameters that are not finite follows from it", "[links]") {
  Finding arrived = found_by(1, 6, kArrived);
  Finding before = found_by(0, 5, "optim-update-size");
  Finding after = found_by(1, 40, "optim-update-size");
  Finding explained = found_by(0, 40, "optim-update-size");
  explained.caused_by = "another";
  fold_spread_nonfinite(four_ranks(), {&before, &after, &explained, &arrived});
  CHECK(before.caused_by.empty());
  CHECK(after.caused_by == arrived.fingerprint);
  CHECK(explained.caused_by == "another");
}

TEST_CASE("nothing follows from another rank", "[links]") {
  SECTION("in the same step") { CHECK(Spread(four_ranks(), 6).read.caused_by.empty()); }
  SECTION("where ranks average nothing") {
    RanksComparedEvent run = four_ranks();
    exchange_parameters(run);
    CHECK(Spread(run).read.caused_by.empty());
  }
  SECTION("of another cohort") {
    RanksComparedEvent run = four_ranks();
    run.cohorts.push_back(run.cohorts[0]);
    run.cohorts[0].ranks = {1, 3};
    run.cohorts[1].ranks = {0, 2};
    CHECK(Spread(run).read.caused_by.empty());
  }
  SECTION("whose gradient the program cleared") {
    Finding cleared = found_by(1, 6, kArrived);
    cleared.severity = Severity::kNote;
    Finding read = found_by(0, 7, kForward, "parameter");
    fold_spread_nonfinite(four_ranks(), {&cleared, &read});
    CHECK(read.caused_by.empty());
  }
}

TEST_CASE("a host on which it began three times, and no other, is suspected", "[links]") {
  const auto run_on = [](const std::vector<std::string>& hosts) {
    RanksComparedEvent run = four_ranks();
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      run.endings.ranks.push_back({.rank = static_cast<std::int64_t>(rank), .host = hosts[rank]});
    }
    return run;
  };
  const auto skipped = [](std::int64_t rank, std::int64_t occurrences) {
    Finding finding = found_by(rank, 6, kArrived);
    finding.severity = Severity::kNote;
    finding.occurrences = occurrences;
    return finding;
  };
  const RanksComparedEvent two_hosts = run_on({"node-a", "node-a", "node-b", "node-b"});
  Finding two = skipped(2, 2);
  Finding three = skipped(3, 1);
  SECTION("of all its ranks together") {
    suspect_hosts(two_hosts, {&two, &three});
    CHECK(fact_in(two, "host_repeat_count") == FactValue(std::int64_t{3}));
    CHECK(fact_in(three, "host_repeat_count") == FactValue(std::int64_t{3}));
    CHECK(two.why ==
          "averaging spreads it; it began 3 times on host node-b and on no other: perhaps its "
          "hardware is at fault");
    REQUIRE(two.fixes.size() == 1);
    CHECK(two.fixes[0].text == "test the memory and the devices of node-b");
  }
  SECTION("not after two of them") {
    suspect_hosts(two_hosts, {&two});
    CHECK(fact_in(two, "host_repeat_count") == FactValue(std::int64_t{2}));
    CHECK(two.why == "averaging spreads it");
  }
  SECTION("not where another host had one, too") {
    Finding other = skipped(0, 1);
    suspect_hosts(two_hosts, {&two, &three, &other});
    CHECK(fact_in(other, "host_repeat_count") == FactValue(std::int64_t{1}));
    CHECK(two.why == "averaging spreads it");
  }
  SECTION("not where all ranks are on one host, or hosts are not known") {
    suspect_hosts(run_on({"node-a", "node-a", "node-a", "node-a"}), {&two, &three});
    CHECK(fact_in(two, "host_repeat_count") == FactValue(std::int64_t{3}));
    CHECK(two.why == "averaging spreads it");
    Finding unknown = skipped(2, 9);
    suspect_hosts(four_ranks(), {&unknown});
    CHECK(fact_in(unknown, "host_repeat_count") == text_of("absent"));
  }
  SECTION("what another rank's gradient became here is not counted") {
    Finding spread = found_by(3, 7, kArrived, "other_rank");
    suspect_hosts(two_hosts, {&two, &spread});
    CHECK(fact_in(two, "host_repeat_count") == FactValue(std::int64_t{2}));
  }
}

}  // namespace ddpscope::test::spread_nonfinite_test
