#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::loss_gathered_no_gradient_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "fc.weight"}};
constexpr TensorId kFeatures = 31, kOwn = 41, kOther = 42, kAll = 50, kTurned = 51, kAlike = 52,
                   kLoss = 60;

struct Loop {
  Program program{"loss-gathered-no-gradient"};
  std::int64_t ranks = 2;
  bool gathers_features = true;
  bool is_followed = false;                       ///< by a Function, whose node comes later
  std::vector<TensorId> joined = {kOwn, kOther};  ///< what cat() reads
  std::string joins = "aten::cat";
  TensorId root = kLoss;
  std::vector<std::string> behind = {};  ///< operators that return what mm() returned

  void gather() {
    for (const TensorId id : {kOwn, kOther}) {
      program.send_now(TensorEvent{.tensor = {.id = id, .shape = {8, 32}, .is_leaf = true}});
    }
    CollectiveEvent event{.seq = 7, .group_size = ranks, .kind = CollectiveKind::kAllGather};
    event.gathered_rows = 8;
    if (gathers_features) event.gathered = {kOwn, kOther};
    program.send_now(std::move(event));
  }

  void step() {
    program.op({.name = "aten::addmm", .inputs = {30, 1}, .outputs = {kFeatures}});
    gather();
    const bool has_path = std::ranges::find(joined, kFeatures) != joined.end();
    program.op({.name = joins,
                .inputs = joined,
                .outputs = {kAll},
                .grad_mode = !is_followed,
                .requires_grad = has_path});
    program.op({.name = "aten::t",
                .inputs = {kAll},
                .outputs = {kTurned},
                .requires_grad = has_path || is_followed});
    program.op({.name = "aten::mm", .inputs = {kFeatures, kTurned}, .outputs = {kAlike}});
    for (const std::string& name : behind) {
      const bool is_around = name == "aten::matmul";
      program.op({.name = name,
                  .inputs = is_around ? std::vector{kFeatures, kTurned} : std::vector{kAlike},
                  .outputs = {kAlike}});
    }
    program.op({.name = "aten::cross_entropy_loss", .inputs = {kAlike}, .outputs = {kLoss}});
    program.roots = {root};
    program.backward({1});
    program.step(1);
  }

  Findings run(int steps = 2) {
    program.attach(1, kNet);
    program.optimizer(1, {1});
    for (int i = 0; i < steps; ++i) step();
    return program.findings;
  }
};
}  // namespace

TEST_CASE("loss-gathered-no-gradient tells rows that train nothing, after two steps", "[check]") {
  CHECK(Loop().run(1).empty());
  const Findings findings = Loop().run();
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.op == "aten::mm");
  CHECK(finding.what ==
        "16 rows gathered from 2 ranks enter the loss without a gradient; this rank's 8 were not "
        "put back");
  CHECK(finding.why.starts_with("all-gather #7 is outside of autograd"));
  CHECK(fact_of<std::int64_t>(finding, "collective_seq") == 7);
  CHECK(fact_of<std::int64_t>(finding, "rows_count") == 16);
  CHECK(fact_of<std::int64_t>(finding, "local_rows_count") == 8);
}

TEST_CASE("loss-gathered-no-gradient sees through what returns its input or writes it", "[check]") {
  Loop loop;
  loop.behind = {"aten::matmul", "aten::to", "aten::div_", "aten::to"};
  SECTION("written in place") {}
  SECTION("returned as it was") { loop.behind.erase(loop.behind.begin() + 2); }
  const Findings findings = loop.run();
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].op == "aten::mm");
}

TEST_CASE("loss-gathered-no-gradient stays silent", "[check]") {
  Loop loop;
  SECTION("where this rank's tensor took the place of its rows") {
    loop.joined = {kFeatures, kOther};
  }
  SECTION("where its rows were written back") {
    loop.joins = "aten::copy_";
    loop.joined = {kOwn, kFeatures};
  }
  SECTION("on a gather that autograd follows") { loop.is_followed = true; }
  SECTION("on labels, which have no gradient anywhere") { loop.gathers_features = false; }
  SECTION("on metrics, which do not enter the loss") { loop.root = kFeatures; }
  SECTION("in a group of one rank") { loop.ranks = 1; }
  CHECK(loop.run().empty());
}

TEST_CASE("loss-gathered-no-gradient counts anew after lost events", "[check]") {
  Loop loop;
  loop.run(1);
  loop.program.drop_events();
  loop.step();
  CHECK(loop.program.findings.empty());
  loop.step();
  CHECK(loop.program.findings.size() == 1);
}

}  // namespace ddpscope::test::loss_gathered_no_gradient_test
