// Which finding over all ranks explains which.
#include "checks/rank_links.h"

#include "tests/support/catch.h"

namespace ddpscope::test::rank_links_test {
namespace {
Finding finding(const std::string& id, std::int64_t step, std::vector<Fact> facts = {}) {
  Finding one{.id = id, .severity = Severity::kError, .step = step, .facts = std::move(facts)};
  one.fingerprint = id;
  return one;
}

void link(std::vector<Finding>& findings) {
  std::vector<Finding*> all;
  for (Finding& one : findings) all.push_back(&one);
  link_over_ranks(all);
}

std::string cause_of(Finding cause, Finding effect) {
  std::vector<Finding> findings = {std::move(effect), std::move(cause)};
  link(findings);
  return findings[0].caused_by;
}

std::vector<Fact> call(const std::string& group, std::int64_t seq) {
  return {{"group", group}, {"seq", seq}};
}

Fact ranks(const std::string& key, std::int64_t rank) {
  return {key, std::vector<FactScalar>{rank}};
}
}  // namespace

TEST_CASE("a chain of findings over ranks begins at one and is told link by link", "[links]") {
  std::vector<Finding> findings = {
      finding("rank-first-failure", 58, {{"first_rank", std::int64_t{0}}}),
      finding("collective-hang", 58, {ranks("waiting_ranks", 0)}),
      finding("collective-mismatch", 58),
      finding("grad-unused-rank-differs", 58),
  };
  link(findings);
  CHECK(findings[0].caused_by == "collective-hang");
  CHECK(findings[1].caused_by == "collective-mismatch");
  CHECK(findings[2].caused_by == "grad-unused-rank-differs");
  CHECK(findings[3].caused_by.empty());
  CHECK(findings[3].causal_role == CausalRole::kInitiating);
  CHECK(findings[0].causal_role == CausalRole::kCascade);
  CHECK(findings[0].why == "see collective-hang of rank 0");
  REQUIRE(findings[0].fixes.size() == 1);
  CHECK(findings[0].fixes[0].text == "mend what collective-hang tells of");
}

TEST_CASE("a Reducer that waits for gradients explains what it did not average", "[links]") {
  const Fact waits = {"reducer_present", true};
  CHECK(cause_of(finding("grad-missing", 6, {waits}), finding("grad-not-reduced", 6)) ==
        "grad-missing");
  CHECK(cause_of(finding("grad-missing", 6), finding("grad-not-reduced", 6)).empty());
  CHECK(cause_of(finding("grad-missing", 7, {waits}), finding("grad-not-reduced", 6)).empty());

  Finding missing = finding("grad-missing", 6, {waits});
  missing.rank = 1;
  const auto hang = [](std::int64_t rank) {
    return finding("collective-hang", 6, {ranks("suspect_ranks", rank)});
  };
  CHECK(cause_of(missing, hang(1)) == "grad-missing");
  CHECK(cause_of(missing, hang(0)).empty());
}

TEST_CASE("what a rank did not reduce explains that others wait for it at the end", "[links]") {
  const Finding hang = finding("collective-hang", 12, {ranks("suspect_ranks", 1)});
  CHECK(cause_of(finding("grad-not-reduced", 6, {ranks("silent_ranks", 1)}), hang) ==
        "grad-not-reduced");
  CHECK(cause_of(finding("grad-not-reduced", 6, {ranks("silent_ranks", 0)}), hang).empty());
  CHECK(cause_of(finding("grad-not-reduced", 13, {ranks("silent_ranks", 1)}), hang).empty());
  CHECK(cause_of(finding("grad-not-reduced", 6), hang).empty());
}

TEST_CASE("what is forecast explains nothing that came", "[links]") {
  const Fact later = {"forecast_step", std::int64_t{50}};
  for (const std::string effect :
       {"collective-hang", "grad-not-reduced", "rank-optimizer-differs"}) {
    CHECK(cause_of(finding("rank-step-lag", 1), finding(effect, 9)) == "rank-step-lag");
    CHECK(cause_of(finding("rank-step-lag", 1, {later}), finding(effect, 9)).empty());
    CHECK_FALSE(explains_over_ranks(finding("rank-step-lag", 1, {later}), finding(effect, 9)));
  }
}

TEST_CASE("in one group the number of the call decides, else the step", "[links]") {
  CHECK(cause_of(finding("collective-mismatch", 9, call("a", 5)),
                 finding("collective-hang", 8, call("a", 5))) == "collective-mismatch");
  CHECK(cause_of(finding("collective-mismatch", 8, call("a", 6)),
                 finding("collective-hang", 9, call("a", 5))) == "");
  CHECK(cause_of(finding("collective-mismatch", 9, call("a", 5)),
                 finding("collective-hang", 8, call("b", 5))) == "");
  CHECK(cause_of(finding("collective-mismatch", 8, call("a", 6)),
                 finding("collective-hang", 8, call("b", 5))) == "collective-mismatch");
}

TEST_CASE("a batch norm that one rank skipped explains who hangs, fails and lags", "[links]") {
  const Finding skipped = finding("norm-syncbn-calls-differ", 9, call("a", 5));
  CHECK(cause_of(skipped, finding("collective-hang", 9, call("a", 5))) ==
        "norm-syncbn-calls-differ");
  CHECK(cause_of(skipped, finding("collective-hang", 9, call("a", 4))) == "");
  CHECK(cause_of(skipped, finding("rank-step-lag", 9)) == "norm-syncbn-calls-differ");
  CHECK(cause_of(skipped, finding("rank-step-lag", 8)) == "");
  CHECK(cause_of(finding("rank-model-differs", 0), skipped) == "rank-model-differs");
  const Finding failure = finding("rank-first-failure", 9, {{"first_rank", std::int64_t{1}}});
  CHECK(cause_of(skipped, failure) == "norm-syncbn-calls-differ");
  Finding threw = finding("module-operator-failed", 9);
  CHECK(cause_of(skipped, threw) == "");
  threw.op = "aten::batch_norm";
  CHECK(cause_of(skipped, threw) == "norm-syncbn-calls-differ");
}

TEST_CASE("unequal gradients explain calls of their step and the next one", "[links]") {
  for (const auto& [step, linked] : {std::pair{57, false}, {58, true}, {59, true}, {60, false}}) {
    const bool is_linked =
        !cause_of(finding("grad-unused-rank-differs", 58), finding("collective-mismatch", step))
             .empty();
    CHECK(is_linked == linked);
  }
}

TEST_CASE("unequal gradients that are a note explain no error", "[links]") {
  for (const char* effect : {"rank-parameters-differ", "grad-not-reduced"}) {
    Finding unused = finding("grad-unused-rank-differs", 2);
    CHECK(cause_of(unused, finding(effect, 3)) == "grad-unused-rank-differs");
    unused.severity = Severity::kNote;
    CHECK(cause_of(unused, finding(effect, 3)).empty());
  }
}

TEST_CASE("what a Reducer did not average explains parameters that part afterwards", "[links]") {
  const Finding drift = finding("rank-parameters-differ", 2, {{"cause", std::string("drift")}});
  const Finding initial =
      finding("rank-parameters-differ", 2, {{"cause", std::string("init_not_synced")}});
  const Fact of_reducer = {"reducer_present", true};
  CHECK(cause_of(finding("grad-not-reduced", 1), drift) == "grad-not-reduced");
  CHECK(cause_of(finding("grad-not-reduced", 4), drift) == "grad-not-reduced");  // in turn
  CHECK(cause_of(finding("grad-not-reduced", 5), drift) == "");
  CHECK(cause_of(finding("grad-not-reduced", 1), initial) == "");
  CHECK(cause_of(finding("grad-missing", 1, {of_reducer}), drift) == "grad-missing");
  CHECK(cause_of(finding("grad-missing", 1), drift) == "");
  CHECK(cause_of(finding("grad-missing", 3, {of_reducer}), drift) == "");
}

TEST_CASE("a hang explains the failure of a rank that waited in it, and no other", "[links]") {
  const Finding hang = finding("collective-hang", 5, {ranks("waiting_ranks", 0)});
  const auto failure = [](std::int64_t rank, std::int64_t step) {
    return finding("rank-first-failure", step, {{"first_rank", rank}});
  };
  CHECK(cause_of(hang, failure(0, 5)) == "collective-hang");
  CHECK(cause_of(hang, failure(1, 5)) == "");
  CHECK(cause_of(hang, failure(0, 4)) == "");
  CHECK(cause_of(finding("collective-mismatch", 5), failure(1, 6)) == "collective-mismatch");
  CHECK(cause_of(finding("collective-mismatch", 5), failure(1, 7)) == "");
}

TEST_CASE("a hang explains that all ranks were killed or told to stop", "[links]") {
  const Finding hang = finding("collective-hang", 5, {ranks("waiting_ranks", 0)});
  CHECK(cause_of(hang, finding("rank-first-failure", 5)) == "collective-hang");
  CHECK(cause_of(hang, finding("rank-first-failure", 4)) == "");
  CHECK(cause_of(hang, finding("rank-first-failure", 5,
                               {{"first_rank", std::int64_t{1}},
                                {"cause", std::string("launcher_or_session")}})) ==
        "collective-hang");
}

TEST_CASE("the failure of the late rank explains the wait, unless it was stuck", "[links]") {
  const Finding failure = finding("rank-first-failure", 5, {{"first_rank", std::int64_t{3}}});
  const auto hang = [](const std::string& state) {
    return finding("collective-hang", 5, {ranks("suspect_ranks", 3), {"state", state}});
  };
  CHECK(cause_of(failure, hang("gone")) == "rank-first-failure");
  CHECK(cause_of(failure, hang("stuck")) == "");
}

TEST_CASE("a rank that failed lags for that, and no other", "[links]") {
  const Finding failure = finding("rank-first-failure", 8, {{"first_rank", std::int64_t{1}}});
  CHECK(cause_of(failure, finding("rank-step-lag", 8, {ranks("lagging_ranks", 1)})) ==
        "rank-first-failure");
  CHECK(cause_of(failure, finding("rank-step-lag", 8, {ranks("lagging_ranks", 0)})) == "");
}

TEST_CASE("ranks that lag explain the wait for them", "[links]") {
  CHECK(cause_of(finding("rank-step-lag", 4), finding("collective-hang", 5)) == "rank-step-lag");
  CHECK(cause_of(finding("rank-step-lag", 6), finding("collective-hang", 5)) == "");
  CHECK(cause_of(finding("rank-step-lag", 4), finding("collective-mismatch", 5)) ==
        "rank-step-lag");
  CHECK(cause_of(finding("collective-mismatch", 5), finding("rank-step-lag", 5)) ==
        "collective-mismatch");
}

TEST_CASE("gradients that became trainable and are in no collective are not reduced", "[links]") {
  const auto changed = [](std::int64_t not_averaged) {
    return finding("module-trainable-changed", 21,
                   {{"parameters", std::vector<FactScalar>{std::string("a.weight")}},
                    {"not_averaged_count", not_averaged}});
  };
  const auto unreduced = [](const std::string& path, std::int64_t step) {
    return finding("grad-not-reduced", step, {{"first_path", path}});
  };
  CHECK(cause_of(changed(1), unreduced("a.weight", 21)) == "module-trainable-changed");
  CHECK(cause_of(changed(1), unreduced("b.weight", 21)) == "");
  CHECK(cause_of(changed(1), unreduced("a.weight", 20)) == "");
  CHECK(cause_of(changed(0), unreduced("a.weight", 21)) == "");
}

TEST_CASE("parameters that drift follow from what the ranks did before", "[links]") {
  const auto values = [](const std::string& cause) {
    return finding("rank-parameters-differ", 8, {{"cause", cause}});
  };
  CHECK(cause_of(finding("rank-optimizer-differs", 7), values("drift")) ==
        "rank-optimizer-differs");
  CHECK(cause_of(finding("rank-optimizer-differs", 9), values("drift")) == "");
  CHECK(cause_of(finding("rank-optimizer-differs", 7), values("init_not_synced")) == "");
  CHECK(cause_of(finding("rank-model-differs", 0), values("init_not_synced")) ==
        "rank-model-differs");
  CHECK(cause_of(finding("rank-model-differs", 0), finding("rank-buffers-differ", 0)) ==
        "rank-model-differs");
}

TEST_CASE("what ranks froze explains what their optimizers hold since the step before", "[links]") {
  const auto linked = [](const std::string& cause, const std::string& field, std::int64_t step) {
    return cause_of(finding("rank-model-differs", 22, {{"cause", cause}}),
                    finding("rank-optimizer-differs", step, {{"field", field}}));
  };
  CHECK(linked("trainable", "members", 21) == "rank-model-differs");
  CHECK(linked("trainable", "groups", 21) == "rank-model-differs");
  CHECK(linked("trainable", "members", 20) == "");
  CHECK(linked("trainable", "learning_rate", 21) == "");
  CHECK(linked("shape", "members", 21) == "");
  CHECK(linked("shape", "learning_rate", 22) == "rank-model-differs");
}

TEST_CASE("gradients that one rank misses are told once", "[links]") {
  const auto with = [](Finding one, std::vector<FactScalar> paths) {
    one.facts.push_back({"parameters", std::move(paths)});
    return one;
  };
  const std::string a = "a";
  const std::string b = "b";
  const Finding unused = with(finding("grad-unused-rank-differs", 3), {a, b});
  CHECK(cause_of(unused, with(finding("grad-missing", 7), {a})) == "grad-unused-rank-differs");
  CHECK(cause_of(unused, with(finding("grad-missing", 7), {a, std::string("c")})) == "");
  CHECK(cause_of(unused, with(finding("grad-missing", 7), {})) == "");
}

TEST_CASE("a collective that threw follows from the ranks' disagreement", "[links]") {
  Finding thrown = finding("module-operator-failed", 5);
  thrown.op = "c10d::allreduce_";
  CHECK(cause_of(finding("collective-mismatch", 5), thrown) == "collective-mismatch");
  thrown.op = "aten::mm";
  CHECK(cause_of(finding("collective-mismatch", 5), thrown) == "");
}

TEST_CASE("no chain of causes is closed to a circle, and the suppressed explain nothing",
          "[links]") {
  std::vector<Finding> findings = {
      finding("collective-hang", 5, {ranks("suspect_ranks", 0), ranks("waiting_ranks", 0)}),
      finding("rank-first-failure", 5, {{"first_rank", std::int64_t{0}}})};
  link(findings);
  CHECK(findings[1].caused_by == "collective-hang");
  CHECK(findings[0].caused_by.empty());

  Finding suppressed = finding("rank-step-lag", 4);
  suppressed.suppressed = true;
  CHECK(cause_of(suppressed, finding("collective-hang", 5)) == "");
}

TEST_CASE("what a batch norm over ranks brought follows from the rank where it began", "[links]") {
  const auto nonfinite = [](const std::string& cause, std::int64_t step, std::int64_t rank) {
    Finding one = finding("numeric-nonfinite-forward", step, {{"cause", cause}});
    one.fingerprint = cause;
    one.rank = rank;
    one.ranks = {rank};
    return one;
  };
  const Finding brought = nonfinite("other_rank", 6, 0);
  CHECK(cause_of(nonfinite("batch", 6, 1), brought) == "batch");
  CHECK(cause_of(nonfinite("batch", 4, 1), brought).empty());
  CHECK(cause_of(nonfinite("batch", 6, 0), brought).empty());
  CHECK(cause_of(brought, nonfinite("batch", 6, 1)).empty());
}

TEST_CASE("groups apart explain what each divides by all ranks", "[links]") {
  const Fact split = {"cause", std::string("split")};
  const Finding scale =
      finding("grad-reduced-wrong-scale", 1, {{"cause", std::string("divided_twice")}});
  CHECK(cause_of(finding("grad-not-reduced", 1, {split}), scale) == "grad-not-reduced");
  CHECK(cause_of(finding("grad-not-reduced", 1), scale).empty());
}

}  // namespace ddpscope::test::rank_links_test
