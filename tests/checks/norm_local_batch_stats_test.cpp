#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::norm_local_batch_stats_test {
namespace {
std::vector<Registered> net() {
  return {{.id = 1, .path = "head.weight"},
          {.id = 2, .path = "neck.bn.running_mean", .requires_grad = false, .is_buffer = true},
          {.id = 3, .path = "stem.bn.running_mean", .requires_grad = false, .is_buffer = true}};
}

TrainingOpEvent norm(TensorId statistics, std::vector<std::int64_t> input) {
  return {.op = "aten::batch_norm", .statistics = statistics, .input = std::move(input)};
}

CollectiveEvent averaging() {
  return {.group_size = 2, .reduce = ReduceKind::kSum, .averages = true};
}

/// What one rank of `world_size` does in its first steps.
struct Ranks {
  explicit Ranks(std::int64_t world_size = 2)
      : program("norm-local-batch-stats", nullptr, world_size) {
    program.attach(1, net());
    program.optimizer(1, {1});
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      for (const TrainingOpEvent& op : ops) program.send_now(op);
      program.backward({1});
      if (averages) program.send_now(call);
      program.step(1);
      program.zero_grad(1);
    }
  }
  Program program;
  std::vector<TrainingOpEvent> ops = {norm(3, {4, 8, 16, 16}), norm(2, {4, 8, 4, 4})};
  CollectiveEvent call = averaging();
  bool averages = true;
};
}  // namespace

TEST_CASE("norm-local-batch-stats notes layers of ranks that average gradients", "[check]") {
  Ranks ranks;
  ranks.call.reduce = GENERATE(ReduceKind::kSum, ReduceKind::kAverage);
  ranks.steps(2);
  CHECK(ranks.program.findings.empty());
  ranks.steps(6);
  ranks.program.exit();
  REQUIRE(ranks.program.findings.size() == 1);
  const Finding& finding = ranks.program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.step == 3);
  CHECK(finding.module_path.empty());
  REQUIRE(finding.fixes.size() == 3);
  CHECK(finding.fixes[1].text.starts_with("normalise over the ranks: DDPSCOPE=sync_batch_norm=1"));
  CHECK(finding.what ==
        "2 batch norm layers normalise over the local batch of 4 rows; smallest layer neck.bn has "
        "64 values per channel");
  CHECK(fact_of<std::int64_t>(finding, "layers_count") == 2);
  CHECK(fact_of<std::int64_t>(finding, "local_batch") == 4);
  CHECK(fact_of<std::int64_t>(finding, "min_values_per_channel") == 64);
  CHECK(fact_of<std::string>(finding, "smallest_layer") == "neck.bn");
}

TEST_CASE("norm-local-batch-stats tells to register what no module holds", "[check]") {
  Ranks ranks;
  ranks.ops = {norm(0, {4, 8, 16, 16})};
  ranks.steps(4);
  REQUIRE(ranks.program.findings.size() == 1);
  CHECK(ranks.program.findings[0].fixes[1].text ==
        "register its weight or running mean in a module, and normalise over the ranks: "
        "DDPSCOPE=sync_batch_norm=1");
}

TEST_CASE("norm-local-batch-stats tells why the setting left a layer local", "[check]") {
  using Told = std::tuple<NormScope, std::string, std::string>;
  const auto [scope, why, fix] = GENERATE(
      Told{NormScope::kUnlisted, "were registered when the ranks compared", "build it before"},
      Told{NormScope::kOtherThread, "calls of the thread that attached", "train it on the thread"},
      Told{NormScope::kNameless, "their weight and running mean", "declare a ddpscope::Sync"});
  Ranks ranks;
  ranks.ops = {norm(2, {4, 8, 16, 16})};
  ranks.ops[0].scope = scope;
  ranks.steps(4);
  REQUIRE(ranks.program.findings.size() == 1);
  const Finding& finding = ranks.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.why.find(why) != std::string::npos);
  CHECK(finding.fixes[1].text.starts_with(fix));
}

TEST_CASE("norm-local-batch-stats does not tell to set what is set", "[check]") {
  Ranks ranks;
  ranks.ops = {norm(0, {4, 8, 16, 16})};
  ranks.ops[0].scope = NormScope::kUnlisted;
  ranks.steps(4);
  REQUIRE(ranks.program.findings.size() == 1);
  CHECK(ranks.program.findings[0].severity == Severity::kNote);
  CHECK(ranks.program.findings[0].fixes[1].text ==
        "register its weight or running mean in a module, and normalise over the ranks");
}

TEST_CASE("norm-local-batch-stats warns of a nameless layer whose place is not known", "[check]") {
  Ranks ranks;
  ranks.ops = {norm(0, {4, 8, 16, 16})};
  ranks.ops[0].scope = NormScope::kNameless;
  ranks.steps(4);
  REQUIRE(ranks.program.findings.size() == 1);
  CHECK(ranks.program.findings[0].severity == Severity::kWarning);
  CHECK(ranks.program.findings[0].why.starts_with("sync_batch_norm tells the layers of a model"));
}

TEST_CASE("norm-local-batch-stats warns of fewer than 16 values", "[check]") {
  Ranks ranks;
  const std::int64_t rows = GENERATE(15, 16);
  ranks.ops = {norm(2, {32, 8}), norm(2, {rows, 8})};
  ranks.steps(3);
  REQUIRE(ranks.program.findings.size() == 1);
  CHECK(ranks.program.findings[0].severity == (rows < 16 ? Severity::kWarning : Severity::kNote));
  CHECK(ranks.program.findings[0].module_path == "neck.bn");
}

TEST_CASE("norm-local-batch-stats tells a short run at its end", "[check]") {
  Ranks ranks;
  ranks.steps(1);
  CHECK(ranks.program.findings.empty());
  ranks.program.exit();
  CHECK(ranks.program.findings.size() == 1);
}

TEST_CASE("norm-local-batch-stats takes the program's word that gradients are averaged",
          "[check]") {
  Ranks ranks;
  ranks.averages = false;
  const std::string word = GENERATE("averaged", "intended");
  ranks.program.declare("*", word);
  ranks.steps(3);
  CHECK(ranks.program.findings.size() == (word == "averaged" ? 1 : 0));
}

TEST_CASE("norm-local-batch-stats stays silent on one rank", "[check]") {
  Ranks ranks(1);
  ranks.steps(5);
  ranks.program.exit();
  CHECK(ranks.program.findings.empty());
}

TEST_CASE("norm-local-batch-stats stays silent", "[check]") {
  Ranks ranks;
  SECTION("in eval mode") {
    for (TrainingOpEvent& op : ranks.ops) op.in_eval = true;
  }
  SECTION("on layers whose own mode is eval") { ranks.ops.clear(); }
  SECTION("on layers that are synchronised from the second step on") {
    for (TrainingOpEvent& op : ranks.ops) op.scope = NormScope::kUndecided;
    ranks.steps(1);
    for (TrainingOpEvent& op : ranks.ops) op.op = "ddpscope::sync_batch_norm";
  }
  SECTION("on layers that the setting was told to leave out") {
    for (TrainingOpEvent& op : ranks.ops) op.scope = NormScope::kExcluded;
  }
  SECTION("on layers that are synchronised already") {
    for (TrainingOpEvent& op : ranks.ops) op.op = "ddpscope::sync_batch_norm";
  }
  SECTION("on ranks that average nothing") { ranks.averages = false; }
  SECTION("on ranks that exchange no gradients") { ranks.call.averages = false; }
  SECTION("on a group of one rank") { ranks.call.group_size = 1; }
  ranks.steps(5);
  ranks.program.exit();
  CHECK(ranks.program.with_id("norm-local-batch-stats").empty());
}

}  // namespace ddpscope::test::norm_local_batch_stats_test
