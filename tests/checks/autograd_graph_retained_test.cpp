#include <algorithm>

#include "tests/support/catch.h"
#include "tests/support/stale_events.h"

namespace ddpscope::test::autograd_graph_retained_test {
namespace {
/// A run whose cycles are its steps.
struct Steps {
  Program program{"autograd-graph-retained"};
  std::int64_t step = 0;
  std::uint64_t thread = 1;

  Steps() { program.attach(1, {{.id = 1, .path = "cell.weight"}}); }
  void backward(std::int64_t cycles_back, std::int64_t roots_alive = 0, bool surveyed = true) {
    ++step;
    program.send(std::make_unique<BackwardEvent>(
        BackwardEvent{.at = {.step = step, .cycle = step, .thread = thread},
                      .surveyed = surveyed,
                      .walked = surveyed,
                      .roots_alive = roots_alive,
                      .graph = {.nodes = 100 + 300 * cycles_back,
                                .cycles_back = cycles_back,
                                .oldest = "AddmmBackward0",
                                .entry = "TanhBackward0",
                                .entered = Doing{.step = step, .module = 1001}}}));
  }
};
}  // namespace

TEST_CASE("autograd-graph-retained reports a graph that grows by a step each step", "[check]") {
  Steps steps;
  for (int depth = 0; depth < 5; ++depth) steps.backward(depth);
  CHECK(steps.program.findings.empty());
  steps.backward(5);
  REQUIRE(steps.program.findings.size() == 1);
  const Finding& finding = steps.program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.module_path == "cell");
  CHECK(finding.op == "aten::tanh");
  CHECK(finding.what == "the graph of this loss reaches back 5 steps, 1600 nodes, +300 per step");
  CHECK(fact_of<std::string>(finding, "cause") == "reached");
  CHECK(fact_of<std::int64_t>(finding, "depth_steps") == 5);
  CHECK(fact_of<std::int64_t>(finding, "nodes_count") == 1600);
  CHECK(fact_of<std::int64_t>(finding, "nodes_per_step_count") == 300);
  CHECK(fact_of<std::string>(finding, "oldest_op") == "aten::addmm");
  CHECK(fact_of<std::string>(finding, "entry_op") == "aten::tanh");
  CHECK_FALSE(fact_of<bool>(finding, "keep_graph"));
}

TEST_CASE("autograd-graph-retained compares no two roots of one step", "[check]") {
  Steps steps;
  steps.step = 30;
  steps.backward(0);
  --steps.step;
  steps.backward(9);
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].what ==
        "the graph of this loss reaches back 9 steps, 2800 nodes");
}

TEST_CASE("autograd-graph-retained finds parts of graphs of which no root is left", "[check]") {
  Steps steps;
  const bool is_evaluated = GENERATE(true, false);
  const std::int64_t many = is_evaluated ? 17 : 513;  // one in 16 steps
  const auto sample = [&](OldGraphs graphs) {
    BackwardEvent event{.at = {.step = 16 * ++steps.step, .cycle = steps.step}};
    (is_evaluated ? event.evaluated : event.trained) = graphs;
    steps.program.send(std::make_unique<BackwardEvent>(std::move(event)));
  };
  SECTION("which go on being kept: a note, and a warning later") {
    for (std::int64_t i = 0; i <= many + 8; ++i) {
      sample({.alive = std::min<std::int64_t>(i, 128), .since = i > 0 ? 16 : 0});
      const std::size_t told = i < 8 ? 0 : (i < many - 1 ? 1 : 2);
      CHECK(steps.program.findings.size() == told);
    }
    CHECK(steps.program.findings.at(0).severity == Severity::kNote);
    CHECK(steps.program.findings.at(1).severity == Severity::kWarning);
    CHECK(cause_of(steps.program.findings[0]) == "kept");
    const std::string whose = is_evaluated ? "of the evaluation of" : "of";
    CHECK(steps.program.findings[0].what ==
          "the graph " + whose +
              " step 16 is still alive in part, and those of each of 7 sampled since");
  }
  SECTION("but not few") {
    for (int i = 0; i < 80; ++i) sample({.alive = 7, .since = 16 * i});
    CHECK(steps.program.findings.empty());
  }
  SECTION("but not where later ones are gone") {
    for (std::int64_t i = 8; i < 80; ++i) sample({.alive = i, .since = 16, .died = 32});
    CHECK(steps.program.findings.empty());
  }
}

TEST_CASE("autograd-graph-retained reports a deep graph at first sight", "[check]") {
  Steps steps;
  steps.backward(9);
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(steps.program.findings[0].what ==
        "the graph of this loss reaches back 9 steps, 2800 nodes");
}

TEST_CASE("autograd-graph-retained among threads asks for a graph that goes on growing",
          "[check]") {
  Steps steps;
  steps.backward(0);
  steps.thread = 2;
  for (const std::int64_t depth : {9, 3, 12, 4, 5, 9, 10}) steps.backward(depth);
  CHECK(steps.program.findings.empty());
  steps.backward(11);
  CHECK(steps.program.findings.empty());
  steps.backward(12);
  CHECK(steps.program.findings.size() == 1);
}

TEST_CASE("autograd-graph-retained reports losses that are kept", "[check]") {
  Steps steps;
  for (int i = 1; i <= 9; ++i) steps.backward(0, i, /*surveyed=*/false);
  REQUIRE(steps.program.findings.size() == 1);
  CHECK(cause_of(steps.program.findings[0]) == "kept");
  CHECK(fact_of<std::int64_t>(steps.program.findings[0], "roots_alive_count") == 8);
}

TEST_CASE("autograd-graph-retained counts kept losses by turns of all optimizers", "[check]") {
  Program program("autograd-graph-retained");
  program.attach(1, {{.id = 1, .path = "cell.weight"}});
  const auto backward = [&](std::int64_t step, std::int64_t roots_alive) {
    program.send(std::make_unique<BackwardEvent>(
        BackwardEvent{.at = {.step = step, .cycle = (step + 1) / 2}, .roots_alive = roots_alive}));
  };
  const bool is_kept = GENERATE(true, false);
  for (std::int64_t i = 1; i <= 10; ++i) {
    const std::int64_t alive = is_kept ? i : std::min<std::int64_t>(i, 7);
    backward(2 * i - 1, alive);
    backward(2 * i, alive);
  }
  REQUIRE(program.findings.size() == (is_kept ? 1 : 0));
  if (!is_kept) return;
  CHECK(program.findings[0].what ==
        "the graphs of 8 earlier losses are still alive, more after each turn of all optimizers");
}

TEST_CASE("autograd-graph-retained stays silent", "[check]") {
  Steps steps;
  SECTION("on truncated back-propagation with a constant window") {
    for (int i = 0; i < 20; ++i) steps.backward(std::min(i, 4));
  }
  SECTION("on a window that begins anew") {
    for (int i = 0; i < 20; ++i) steps.backward(i % 4);
  }
  SECTION("on a few losses that stay in scope") {
    for (int i = 0; i < 40; ++i) steps.backward(0, i < 6 ? i : 6, /*surveyed=*/false);
  }
  SECTION("on losses that are logged in batches and then dropped") {
    for (int i = 0; i < 40; ++i) steps.backward(0, i % 8, /*surveyed=*/false);
  }
  CHECK(steps.program.findings.empty());
}

}  // namespace ddpscope::test::autograd_graph_retained_test
