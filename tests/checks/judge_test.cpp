#include "checks/judge.h"

#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::judge_test {
namespace {
class Throws final : public Check {
 public:
  void on_exit(const ExitEvent&, const RunState&, Findings&) override {
    throw std::out_of_range("vector::at");
  }
};
class Repeats final : public Check {
 public:
  void on_exit(const ExitEvent& event, const RunState&, Findings& findings) override {
    Finding finding;
    finding.severity = event.at.step == 5 ? Severity::kError : Severity::kWarning;
    findings.push_back(finding);
  }
};
const std::vector<CheckRow> kTable = {
    {.id = "a-throws", .factory = [] { return std::unique_ptr<Check>(new Throws); }},
    {.id = "b-repeats", .factory = [] { return std::unique_ptr<Check>(new Repeats); }},
    {.id = "c-blind",
     .needs = "tree?, op",
     .factory = [] { return std::unique_ptr<Check>(new Repeats); }},
};

Findings judged(int events, Judge** kept = nullptr) {
  static std::unique_ptr<Judge> judge;
  Findings findings;
  judge = std::make_unique<Judge>(
      JudgeOptions{.rank = 5, .level = CheckLevel::kValues, .checks = "*", .sources = {}},
      [&findings](const Finding& finding) { findings.push_back(finding); }, kTable);
  for (int i = 1; i <= events; ++i) judge->consume(ExitEvent{{.step = i}});
  if (kept != nullptr) *kept = judge.get();
  return findings;
}
}  // namespace

TEST_CASE("a finding that names its first step lasts to the step in which it came last",
          "[judge]") {
  struct Began final : Check {
    void on_exit(const ExitEvent&, const RunState&, Findings& findings) override {
      findings.push_back({.severity = Severity::kWarning, .step = 2});
    }
  };
  const std::vector<CheckRow> table = {
      {.id = "began", .factory = [] { return std::unique_ptr<Check>(new Began); }}};
  Judge judge(
      {.level = CheckLevel::kValues, .checks = "*", .sources = {}}, [](const Finding&) {}, table);
  for (const std::int64_t step : {2, 3, 7}) judge.consume(ExitEvent{{.step = step}});
  REQUIRE(judge.findings().size() == 1);
  CHECK(judge.findings()[0].first_step == 2);
  CHECK(judge.findings()[0].step == 2);
  CHECK(judge.findings()[0].last_step == 7);
}

TEST_CASE("tool-check-disabled says at once that a check threw, and it stays off", "[judge]") {
  Judge* judge = nullptr;
  const Findings findings = judged(3, &judge);
  CHECK(std::ranges::count(findings, "a-throws", &Finding::subject) == 1);
  CHECK(findings[0].id == "tool-check-disabled");
  CHECK(findings[0].severity == Severity::kWarning);
  CHECK(findings[0].rank == 5);
  CHECK(findings[0].step == 1);
  CHECK(findings[0].what == "check a-throws threw \"vector::at\" and is off");
  CHECK(judge->coverage().at("a-throws").state == CheckState::kOff);
}

TEST_CASE("a check that passes on a kind of event gets no more of it", "[judge]") {
  static int exits = 0, drops = 0;
  exits = drops = 0;
  struct Passes final : Check {
    void on_exit(const ExitEvent&, const RunState&, Findings&) override {
      ++exits;
      pass();
    }
    void on_dropped(const DroppedEvent&, const RunState&) override { ++drops; }
  };
  const std::vector<CheckRow> table = {
      {.id = "a-passes", .factory = [] { return std::unique_ptr<Check>(new Passes); }}};
  Judge judge(
      {.level = CheckLevel::kValues}, [](const Finding&) {}, table);
  for (int i = 0; i < 3; ++i) {
    judge.consume(ExitEvent{});
    judge.consume(DroppedEvent{});
  }
  CHECK(exits == 1);
  CHECK(drops == 3);
  Passes passes;
  Findings findings;
  passes.Check::on_cycle_end({}, judge.state(), findings);
  CHECK(passes.take_pass());  // as every handler that a check does not have
  CHECK_FALSE(passes.take_pass());
}

TEST_CASE("a repeated finding is told at 10, 100, 1000 and when its severity rises", "[judge]") {
  Findings findings = judged(120);
  std::erase_if(findings, [](const Finding& finding) { return finding.id != "b-repeats"; });
  REQUIRE(findings.size() == 4);
  CHECK(findings[1].occurrences == 5);
  CHECK(findings[1].severity == Severity::kError);
  CHECK(findings[2].occurrences == 10);
  CHECK(findings[2].severity == Severity::kError);
  CHECK(findings[3].occurrences == 100);
  CHECK(findings[3].step == 5);  // its severity is that of this step
  CHECK(findings[3].first_step == 1);
  CHECK(findings[3].last_step == 100);
  CHECK(findings[3].fingerprint == findings[0].fingerprint);
}

TEST_CASE("a repeated finding tells its first occurrence until a later one weighs more",
          "[judge]") {
  static std::vector<Finding> told;
  struct Tells final : Check {
    void on_exit(const ExitEvent& event, const RunState&, Findings& findings) override {
      findings.push_back(told.at(static_cast<std::size_t>(event.at.step - 1)));
    }
  };
  const auto told_by = [](std::string_view id) {
    const std::vector<CheckRow> table = {
        {.id = id, .factory = [] { return std::unique_ptr<Check>(new Tells); }}};
    Judge judge(
        {.level = CheckLevel::kValues}, [](const Finding&) {}, table);
    for (std::size_t i = 1; i <= told.size(); ++i) {
      judge.consume(ExitEvent{{.step = static_cast<std::int64_t>(i)}});
    }
    REQUIRE(judge.findings().size() == 1);
    return judge.findings()[0];
  };
  told = {{.confidence = Confidence::kMedium, .what = "first", .why = "one"},
          {.confidence = Confidence::kMedium, .what = "second", .why = "two"}};
  SECTION("that weighs as much adds to the counts only") {
    const Finding finding = told_by("a-tells");
    CHECK(finding.what == "first");
    CHECK(finding.why == "one");
    CHECK(finding.step == 1);
    CHECK(finding.last_step == 2);
    CHECK(finding.occurrences == 2);
  }
  SECTION("that weighs less, too") {
    told[1].severity = Severity::kNote;
    told[1].confidence = Confidence::kHigh;
    CHECK(told_by("a-tells").what == "first");
  }
  SECTION("with its lines, if the first had none, and with its cause") {
    told[1].sites = {{.role = "used", .frames = {{.file = "net.cpp", .line = 7}}}};
    told[1].caused_by = "0123456789abcdef";
    const Finding finding = told_by("a-tells");
    CHECK(finding.what == "first");
    REQUIRE(finding.sites.size() == 1);
    CHECK(finding.caused_by == "0123456789abcdef");
  }
  SECTION("and is then of its step") {
    told[1].confidence = Confidence::kHigh;
    const Finding finding = told_by("a-tells");
    CHECK(finding.what == "second");
    CHECK(finding.step == 2);
    CHECK(finding.first_step == 1);
    CHECK(finding.occurrences == 2);
  }
  SECTION("and costs are those of the newest window") {
    CHECK(told_by("perf-tells").what == "second");
    told[1].severity = Severity::kNote;
    CHECK(told_by("perf-tells").what == "first");
  }
}

TEST_CASE("a check whose source is missing is blocked with the reason", "[judge]") {
  Judge* judge = nullptr;
  judged(1, &judge);
  CHECK(judge->coverage().at("c-blind").state == CheckState::kBlocked);
  CHECK(judge->coverage().at("c-blind").why == "source not live: op");
  CHECK(judge->coverage().at("b-repeats").state == CheckState::kFailed);
}

TEST_CASE("a check of gradients is blocked where no step ended", "[judge]") {
  const std::int64_t step = GENERATE(1, 2);
  const auto factory = [] { return std::make_unique<Check>(); };
  const std::vector<CheckRow> table = {{.id = "of-values", .needs = "op", .factory = factory},
                                       {.id = "of-steps", .needs = "gradient", .factory = factory}};
  Judge judge(
      {.level = CheckLevel::kValues, .checks = "*", .sources = {"op", "gradient"}},
      [](const Finding&) {}, table);
  judge.consume(ExitEvent{{.step = step}});
  CHECK(judge.coverage().at("of-values").state == CheckState::kPassed);
  const CheckCoverage of_steps = judge.coverage().at("of-steps");
  CHECK(of_steps.state == (step == 1 ? CheckState::kBlocked : CheckState::kPassed));
  CHECK(of_steps.why == (step == 1 ? "no step ended" : ""));
}

TEST_CASE("tool-check-disabled lists at the end what did not run", "[judge]") {
  const Findings findings = judged(1);
  const Finding& last = findings.back();
  CHECK(last.id == "tool-check-disabled");
  CHECK(last.severity == Severity::kNote);
  CHECK(last.what == "1 of 3 checks did not run");
  CHECK(last.why == "c-blind: source not live: op");
}

TEST_CASE("tool-check-disabled tells what the budget left unwatched", "[judge]") {
  Findings findings;
  Judge judge({.level = CheckLevel::kValues},
              [&findings](const Finding& finding) { findings.push_back(finding); }, {});
  const ExitEvent::Rested rested{
      .since_step = 64, .cost_ratio = 0.004, .budget_ratio = 0.001, .latency_steps = 1021};
  judge.consume(ExitEvent{.at = {.step = 3000}, .rested = rested});
  REQUIRE(findings.size() == 1);
  const Finding& finding = findings[0];
  CHECK(finding.id == "tool-check-disabled");
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.what ==
        "checks looked at nearly no step after step 64, to stay near the budget of 0.1 % of the "
        "step time: 0.4 % was spent");
  CHECK(fact_of<std::string>(finding, "id") == "*");
  CHECK(fact_of<std::string>(finding, "reason") == "over budget");
  CHECK(fact_of<std::int64_t>(finding, "since_step") == 64);
  CHECK(fact_of<double>(finding, "cost_ratio") == 0.004);
  CHECK(fact_of<double>(finding, "budget_ratio") == 0.001);
  CHECK(fact_of<std::int64_t>(finding, "latency_steps") == 1021);
}

TEST_CASE("what the setting level leaves out stands in the coverage alone", "[judge]") {
  const std::vector<CheckRow> table = {
      {.id = "a-values", .level = CheckLevel::kValues, .factory = kTable[1].factory}};
  Findings findings;
  Judge judge(
      {.level = CheckLevel::kWatch, .checks = "*", .sources = {}},
      [&findings](const Finding& finding) { findings.push_back(finding); }, table);
  judge.consume(ExitEvent{{.step = 1}});
  CHECK(findings.empty());
  CHECK(judge.coverage().at("a-values").state == CheckState::kBlocked);
  CHECK(judge.coverage().at("a-values").why == "needs level values");
}

TEST_CASE("a check that the settings switch off is neither blocked nor reported", "[judge]") {
  Program program("*,-grad-*");
  program.exit();
  CHECK_FALSE(program.judge().coverage().contains("grad-missing"));
  CHECK(program.judge().coverage().at("memory-growth").state == CheckState::kPassed);
  CHECK(program.findings.empty());
}

TEST_CASE("no check of the table speaks of a clean run", "[judge]") {
  Program program;
  program.attach(1, {{.id = 1, .path = "a.weight"}, {.id = 2, .path = "b.weight"}});
  program.optimizer(1, {1, 2});
  for (int i = 0; i < 40; ++i) {
    program.zero_grad(1);
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}});
    program.op({.name = "aten::mm", .inputs = {21, 2}, .outputs = {22}});
    program.backward({1, 2});
    program.step(1);
  }
  program.exit();
  CHECK(program.findings.empty());
}

TEST_CASE("affected parameters collapse to at most three places", "[judge]") {
  Program program("optim-missing-parameter");
  std::vector<Registered> net = {{.id = 1, .path = "kept.weight"}};
  const int parts = GENERATE(3, 4);
  for (int i = 0; i < parts; ++i) {
    const std::string part = "body.part" + std::to_string(i);
    net.push_back({.id = static_cast<TensorId>(10 + i), .path = part + ".weight"});
    net.push_back({.id = static_cast<TensorId>(20 + i), .path = part + ".bias"});
    net.push_back(
        {.id = static_cast<TensorId>(30 + i), .path = "body.kept" + std::to_string(i) + ".weight"});
  }
  program.attach(1, net);
  std::vector<TensorId> all;
  std::vector<TensorId> held;
  for (const Registered& tensor : net) {
    all.push_back(tensor.id);
    if (tensor.id < 10 || tensor.id >= 30) held.push_back(tensor.id);
  }
  program.optimizer(1, held);
  for (int i = 0; i < 2; ++i) {
    program.backward(all);
    program.step(1);
  }
  REQUIRE(program.findings.size() == (parts == 3 ? 3U : 1U));
  CHECK(program.findings[0].module_path == (parts == 3 ? "body.part0" : "body"));
}

TEST_CASE("common_path is the deepest module above both", "[judge]") {
  CHECK(common_path("a.b.c", "a.b.d") == "a.b");
  CHECK(common_path("a.b", "a.bc") == "a");
  CHECK(common_path("a.b", "a.b") == "a.b");
  CHECK(common_path("a", "a.b") == "a");
  CHECK(common_path("a", "b").empty());
}

}  // namespace ddpscope::test::judge_test
