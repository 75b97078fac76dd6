// Operators and modes that ranks train with, as they tell them of surveyed steps.
#include "exchange/graph_compare.h"

#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::graph_compare_test {
namespace {
const TrainedGraph kUsual{.operators = {{"a", "aten::addmm"}, {"", "aten::relu"}}, .in_eval = {}};
const TrainedGraph kOther{.operators = {{"a", "aten::addmm"}, {"", "aten::tanh"}}, .in_eval = {}};

void put(TestRank& rank, std::int64_t step, const TrainedGraph& graph) {
  rank.writer.put(
      Blob{.kind = BlobKind::kGraph, .number = 0, .step = step, .bytes = encode(graph)});
}

/// Of three ranks, of which the last has another graph in all steps.
struct Surveyed {
  std::vector<std::int64_t> steps = {1, 2, 3, 64};
  TrainedGraph last = kOther;
  TrainedGraph last_in_second = last;  ///< of these steps

  Cohort cohort() const {
    TestRun run(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      run[rank].list({.model = "Net", .tensors = {}});
      for (const std::int64_t step : steps) {
        const TrainedGraph& of_last = step == steps[1] ? last_in_second : last;
        put(run[rank], step, rank < 2 ? kUsual : of_last);
      }
    }
    return run.compared().cohorts.at(0);
  }
};
}  // namespace

TEST_CASE("A graph is read as it was written", "[compare]") {
  const TrainedGraph graph{.operators = {{"a.b", "aten::mul"}, {"", "aten::sum"}},
                           .in_eval = {{"a.norm", ""}}};
  const TrainedGraph read = decode_graph(encode(graph));
  CHECK(read.operators == graph.operators);
  CHECK(read.in_eval == graph.in_eval);
  CHECK(decode_graph("").operators.empty());
  CHECK(decode_graph("o\n\tx\nq").operators.empty());
  TrainedGraph large;
  for (int i = 0; i < 1000; ++i) large.operators.insert({"m" + std::to_string(i), "aten::mul"});
  CHECK(decode_graph(encode(large)).operators == TrainedGraph::Parts{{"", "aten::mul"}});
}

TEST_CASE("Operators that a rank has in each survey are known", "[compare]") {
  const TrainingDiffers differs = Surveyed{}.cohort().operators;
  CHECK(differs.step == 1);
  CHECK(differs.last_step == 64);
  CHECK(differs.steps == 4);
  REQUIRE(differs.parts.size() == 2);
  CHECK(differs.parts[0].op == "aten::relu");
  CHECK(differs.parts[0].ranks == RankList{0, 1});
  CHECK(differs.parts[1].op == "aten::tanh");
  CHECK(differs.parts[1].ranks == RankList{2});
}

TEST_CASE("Operators that change, or were hardly seen, are not compared", "[compare]") {
  Surveyed surveyed;
  SECTION("of a branch") { surveyed.last_in_second = kUsual; }
  SECTION("in a few steps") { surveyed.steps = {1, 2, 3}; }
  SECTION("alike") { surveyed.last = surveyed.last_in_second = kUsual; }
  CHECK(surveyed.cohort().operators.parts.empty());
}

TEST_CASE("Layers that a rank has in eval mode are known", "[compare]") {
  TrainedGraph evaluating = kUsual;
  evaluating.in_eval = {{"norm", ""}};
  Surveyed surveyed{.steps = {1, 2, 8, 16, 24}, .last = evaluating};
  SECTION("at once") {}
  SECTION("after the first step") {
    surveyed.steps = {2, 1, 8, 16, 24};
    surveyed.last_in_second = kUsual;
  }
  const Cohort cohort = surveyed.cohort();
  CHECK(cohort.operators.parts.empty());
  REQUIRE(cohort.modes.parts.size() == 1);
  CHECK(cohort.modes.parts[0].module == "norm");
  CHECK(cohort.modes.parts[0].ranks == RankList{2});
  CHECK(cohort.modes.steps == 4);
}

TEST_CASE("Layers in eval mode for a while are not told", "[compare]") {
  TrainedGraph evaluating = kUsual;
  evaluating.in_eval = {{"norm", ""}};
  Surveyed surveyed{.steps = {1, 2, 8, 16, 24}, .last = evaluating};
  SECTION("in some steps") { surveyed.last_in_second = kUsual; }
  SECTION("of a short run") { surveyed.steps = {1, 2, 3, 4, 5}; }
  SECTION("with few looks") { surveyed.steps = {1, 2, 8, 16}; }
  CHECK(surveyed.cohort().modes.parts.empty());
}

}  // namespace ddpscope::test::graph_compare_test
