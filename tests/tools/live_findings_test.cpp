// What ranks said of all ranks while they ran, beside what a merge says.
#include "tools/live_findings.h"

#include <algorithm>

#include "model/fact_keys.h"
#include "model/fingerprint.h"
#include "tests/support/catch.h"

namespace ddpscope::test {
namespace {
Finding of_ranks(const std::string& id, std::int64_t step, const std::string& what) {
  Finding finding{.id = id, .step = step, .what = what, .ranks = {0, 1}};
  finding.fingerprint = fingerprint_of(finding);
  return finding;
}

Finding of_field(const std::string& field, std::int64_t step, const std::string& what) {
  Finding finding = of_ranks("rank-optimizer-differs", step, what);
  finding.subject = field;
  finding.facts = {{fact::kField, field}};
  finding.fingerprint = fingerprint_of(finding);
  return finding;
}

/// Of rank 0, whose file had `live` in it.
Findings merged(const Findings& live, Findings at_merge, const Findings& of_rank_one = {}) {
  RankFile zero;
  RankFile one;
  one.run.rank = 1;
  zero.findings = live;
  one.findings = of_rank_one;
  Findings taken = take_live_findings({&zero, &one});
  std::vector<Finding*> own;
  for (Finding& finding : zero.findings) own.push_back(&finding);
  for (Finding& finding : one.findings) own.push_back(&finding);
  add_live_findings(std::move(taken), own, at_merge);
  std::ranges::move(zero.findings, std::back_inserter(at_merge));
  std::ranges::move(one.findings, std::back_inserter(at_merge));
  return at_merge;
}

std::vector<std::string> sentences(const Findings& findings) {
  std::vector<std::string> all;
  for (const Finding& finding : findings) all.push_back(finding.what);
  return all;
}

using Sentences = std::vector<std::string>;
}  // namespace

TEST_CASE("what a merge finds as well is told once, in its own words", "[tools]") {
  const Findings found = merged({of_ranks("data-same-on-ranks", 1, "in 20 steps")},
                                {of_ranks("data-same-on-ranks", 1, "in 240 steps")});
  CHECK(sentences(found) == Sentences{"in 240 steps"});
}

TEST_CASE("what was told of an earlier step is kept, for rings forget", "[tools]") {
  Finding late = of_ranks("rank-parameters-differ", 5000, "late");
  late.module_path = "head";
  late.fingerprint = fingerprint_of(late);
  late.caused_by = "abc";
  const Findings found = merged({of_ranks("rank-parameters-differ", 0, "early")}, {late});
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "early");
  CHECK(found[0].caused_by == "abc");
}

TEST_CASE("a forecast gives way to what came of it", "[tools]") {
  Finding forecast = of_ranks("rank-step-lag", 1, "forecast");
  forecast.facts = {{fact::kForecastStep, std::int64_t{50}}};
  CHECK(sentences(merged({forecast}, {})) == Sentences{"forecast"});
  CHECK(sentences(merged({forecast}, {of_ranks("rank-step-lag", 49, "came")})) ==
        Sentences{"came"});
}

TEST_CASE("what a rank suppressed stays so, with its reason", "[tools]") {
  Finding early = of_ranks("rank-parameters-differ", 0, "early");
  early.suppressed = true;
  early.suppression_reason = "known";
  const Findings found = merged({early}, {of_ranks("rank-parameters-differ", 5000, "late")});
  REQUIRE(found.size() == 1);
  CHECK(found[0].suppressed);
  CHECK(found[0].suppression_reason == "known");
}

TEST_CASE("what a merge no longer finds is kept, with what explains it", "[tools]") {
  const Finding cause = of_field("learning_rate", 3, "rate");
  const Findings found = merged({of_ranks("rank-parameters-differ", 4, "drift")}, {cause});
  REQUIRE(found.size() == 2);
  CHECK(found[1].what == "drift");
  CHECK(found[1].caused_by == cause.fingerprint);
}

TEST_CASE("fields of optimizers are told apart", "[tools]") {
  const Findings found =
      merged({of_field("members", 2, "members")}, {of_field("learning_rate", 3, "rate")});
  CHECK(sentences(found) == Sentences{"rate", "members"});
}

TEST_CASE("what a rank found in itself goes before what was said of all ranks", "[tools]") {
  Finding own = of_ranks("grad-not-reduced", 7, "own");
  own.rank = 1;
  own.ranks = {};
  CHECK(sentences(merged({of_ranks("grad-not-reduced", 2, "of all")}, {}, {own})) ==
        Sentences{"own"});
  CHECK(sentences(merged({own}, {})) == Sentences{"own"});
}

TEST_CASE("of ranks that hung the one that saw it knows more", "[tools]") {
  CHECK(sentences(merged({of_ranks("collective-hang", 4, "while it hung")},
                         {of_ranks("collective-hang", 4, "afterwards")})) ==
        Sentences{"while it hung"});
}

TEST_CASE("that a rank left no records is forgotten where they are merged", "[tools]") {
  Finding hang = of_ranks("collective-hang", 4, "rank 1 left no records");
  hang.facts = {{fact::kState, std::string("no records")}};
  hang.ranks = {1};
  CHECK(merged({hang}, {}).empty());
  hang.ranks = {1, 2};
  CHECK(sentences(merged({hang}, {})) == Sentences{"rank 1 left no records"});
}

TEST_CASE("what one rank told of another is told once, as that rank says it", "[tools]") {
  const auto of_rank = [](std::int64_t rank, std::int64_t step, const std::string& what) {
    Finding finding{.id = "numeric-nonfinite-gradient",
                    .rank = rank,
                    .step = step,
                    .subject = "bias",
                    .what = what,
                    .ranks = {rank}};
    finding.fingerprint = fingerprint_of(finding);
    return finding;
  };
  const Finding live = of_rank(1, 6, "of rank 1");
  CHECK(sentences(merged({live}, {}, {of_rank(1, 6, "its own")})) == Sentences{"its own"});
  CHECK(sentences(merged({live}, {})) == Sentences{"of rank 1"});
  CHECK(sentences(merged({of_rank(0, 7, "later"), live}, {})) == Sentences{"of rank 1", "later"});
}

TEST_CASE("a hang that came to an end is a wait", "[tools]") {
  const bool is_clean = GENERATE(true, false);
  RankFile zero, one;
  one.run.rank = 1;
  for (RankFile* file : {&zero, &one}) {
    file->run.world_size = 2;
    file->summary = SummaryRecord{.clean_exit = is_clean || file == &zero};
  }
  Finding hang = of_ranks("collective-hang", 13, "rank 0 waits 9 s in it; rank 1 is in forward");
  hang.severity = Severity::kError;
  hang.fixes = {{"issue the call", {}}, {"raise the timeout", {}}};
  zero.findings = {hang};
  const Findings found = take_live_findings({&zero, &one});
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == (is_clean ? Severity::kWarning : Severity::kError));
  CHECK(found[0].fixes[0].text == (is_clean ? "raise the timeout" : "issue the call"));
  if (!is_clean) return;
  CHECK(found[0].what ==
        "rank 0 waited 9 s in it; rank 1 was in forward; it came later, and all ranks ended "
        "cleanly");
}

}  // namespace ddpscope::test
