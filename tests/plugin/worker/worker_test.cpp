#include "plugin/worker.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "records/jsonl_reader.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::worker_test {
namespace {
using std::chrono::seconds;

WorkerOptions options_in(const TemporaryDir& dir) {
  WorkerOptions options;
  options.run.run_id = "run-a";
  options.settings.report_dir = dir / "out";
  options.settings.console = Console::kQuiet;
  options.judge.checks = "optim-empty";
  options.judge.sources = {"tree", "graph", "gradient", "optimizer"};
  return options;
}

/// Steps that end, as several training threads tell them.
void put_steps(EventSink& queue, std::uint64_t thread, std::int64_t steps) {
  for (std::int64_t step = 1; step <= steps; ++step) {
    auto members = std::make_unique<OptimizerMembersEvent>();
    members->at = {.step = step, .cycle = step, .thread = thread};
    members->optimizer = thread;
    members->type = "SGD";
    members->groups = {{}};
    const Stamp at = members->at;
    queue.put(std::move(members));
    queue.put(OptimizerStepEvent{.at = at, .optimizer = thread});
    queue.put(CycleEndEvent{.at = at, .wall_ms = 1, .overhead_us = 1});
  }
}

bool has_empty_optimizer(const Findings& findings) {
  return std::ranges::find(findings, "optim-empty", &Finding::id) != findings.end();
}

TEST_CASE("What training threads put is judged and on disk when the worker is drained",
          "[worker]") {
  const TemporaryDir dir;
  Worker worker(options_in(dir));
  worker.start();
  std::atomic<bool> asks{true};
  std::thread asking([&worker, &asks] {
    while (asks) {
      worker.findings();
      worker.counts();
      worker.files();
      worker.first_line_of_worst();
      worker.has_at_least(Severity::kError);
    }
  });
  std::vector<std::thread> training;
  for (std::uint64_t thread = 1; thread <= 3; ++thread) {
    training.emplace_back([&worker, thread] { put_steps(worker, thread, 500); });
  }
  for (std::thread& thread : training) thread.join();
  CHECK(worker.drain(seconds(60)));
  asks = false;
  asking.join();

  CHECK(has_empty_optimizer(worker.findings()));
  CHECK(worker.has_at_least(Severity::kError));
  REQUIRE(worker.files().size() == 1);
  const auto unfinished = std::get<RankFile>(read_rank_file(worker.files().front()));
  CHECK(has_empty_optimizer(unfinished.findings));
  CHECK_FALSE(unfinished.summary);

  worker.finish(seconds(60), {});
  const auto file = std::get<RankFile>(read_rank_file(dir / "out/rank-0.jsonl"));
  REQUIRE(file.summary);
  CHECK(file.summary->clean_exit);
  CHECK(file.summary->steps == 500);
  CHECK(file.summary->events_dropped == 0);
}

TEST_CASE("A worker that is told to end judges what was put before", "[worker]") {
  const TemporaryDir dir;
  Worker worker(options_in(dir));
  worker.start();
  put_steps(worker, 1, 3);
  worker.finish(seconds(60), {});
  CHECK(has_empty_optimizer(worker.findings()));
  CHECK(worker.first_line_of_worst().ends_with(" [optim-empty]"));
}

TEST_CASE("A run of which not all was judged has a summary that says so", "[worker]") {
  const TemporaryDir dir;
  Worker worker(options_in(dir));
  worker.start();
  put_steps(worker, 1, 20'000);
  worker.finish(std::chrono::milliseconds(0), {.steps = 20'000});
  const auto file = std::get<RankFile>(read_rank_file(dir / "out/rank-0.jsonl"));
  REQUIRE(file.summary);
  CHECK_FALSE(file.summary->clean_exit);
  CHECK(file.summary->passed.empty());
  CHECK(file.summary->events_dropped > 0);
  CHECK(std::ifstream(dir / "out/report.html").good());
}

TEST_CASE("The summary tells what checks cost in the first cycles and after them", "[worker]") {
  constexpr std::int64_t kFirst = 4;
  const std::int64_t steps = GENERATE(3, 4, 400);
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.full_cycles = kFirst;
  Worker worker(std::move(options));
  worker.start();
  put_steps(worker, 1, steps);
  worker.finish(seconds(60), {.wall_ms = static_cast<double>(steps), .steps = steps});
  const auto file = std::get<RankFile>(read_rank_file(dir / "out/rank-0.jsonl"));
  REQUIRE(file.summary);
  const CheckCost& cost = file.summary->overhead.at("optim-empty");
  REQUIRE(cost.first);
  CHECK(cost.us_per_step > 0);
  REQUIRE(cost.after.has_value() == (steps > kFirst));
  if (!cost.after) {
    CHECK(cost.first->us_per_step == cost.us_per_step);
    return;
  }
  const auto of_all = [steps](double all) { return Approx(all * static_cast<double>(steps)); };
  const auto sum = [steps](double first, double after) {
    return first * kFirst + after * static_cast<double>(steps - kFirst);
  };
  CHECK(sum(cost.first->us_per_step, cost.after->us_per_step) == of_all(cost.us_per_step));
  CHECK(sum(cost.first->percent, cost.after->percent) == of_all(cost.percent));
}

/// Names of frames that take long to find.
class SlowSites final : public SiteSource {
 public:
  Site site(StackId) override {
    asked = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    return {};
  }
  std::atomic<bool> asked{false};
};

TEST_CASE("Why a rank ends is on disk even if the worker was busy then", "[worker]") {
  const bool ends_at_once = GENERATE(false, true);
  const bool is_overdue = GENERATE(false, true);
  const TemporaryDir dir;
  SlowSites sites;
  WorkerOptions options = options_in(dir);
  options.judge.checks = "autograd-leaf-inplace";
  options.judge.sources = {"tree", "write"};
  options.judge.sites = &sites;
  Worker worker(options);
  worker.start();
  worker.put(std::make_unique<FailedWriteEvent>(FailedWriteEvent{
      .at = {.step = 1}, .op = "aten::mul_", .by = {.step = 1, .stack = 1}, .of_leaf = true}));
  while (!sites.asked) std::this_thread::yield();
  worker.write_progress({.step = 1, .reason = "exit", .what = "exit code 2", .code = 2});
  const auto read = [&dir] { return std::get<RankFile>(read_rank_file(dir / "out/rank-0.jsonl")); };
  if (is_overdue) {
    CHECK(read().progress.empty());
    worker.write_overdue_progress();
    CHECK(read().progress.size() == 1);
  }
  if (!ends_at_once) {
    CHECK(worker.drain(seconds(60)));
    CHECK(read().progress.size() == 1);
  }
  worker.finish(seconds(60), {.clean_exit = false});
  REQUIRE(read().progress.size() == 1);
  CHECK(read().progress[0].code == 2);
}

TEST_CASE("What became of each suppression is on disk before the summary", "[worker]") {
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.suppressions = dir / "ci.txt";
  std::ofstream(dir / "ci.txt") << "optim-*:subject=SGD # wanted\n"
                                << "grad-* # never seen\n"
                                << "optim-empty:until=2020-12-31 # was wanted\n";
  Worker worker(options);
  worker.start();
  put_steps(worker, 1, 3);
  worker.finish(seconds(60), {});

  const auto file = std::get<RankFile>(read_rank_file(dir / "out/rank-0.jsonl"));
  REQUIRE(file.summary);
  CHECK(file.summary->errors == 0);
  REQUIRE(file.suppressions.size() == 3);
  CHECK(file.suppressions[0].state == SuppressionState::kUsed);
  CHECK(file.suppressions[1].state == SuppressionState::kUnused);
  CHECK(file.suppressions[2].state == SuppressionState::kExpired);
  CHECK(file.suppressions[2].text == "optim-empty:until=2020-12-31");
}

TEST_CASE("What the setting declares holds for every model", "[worker]") {
  const std::string declared = GENERATE("", "head*=external", "trunk*=external");
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.declare = declared;
  options.judge.checks = "grad-missing";
  Worker worker(std::move(options));
  worker.start();
  auto tree = std::make_unique<TreeEvent>();
  tree->model = 5;
  auto members = std::make_unique<OptimizerMembersEvent>();
  members->optimizer = 1;
  members->groups.emplace_back();
  for (const TensorId id : {TensorId{1}, TensorId{2}}) {
    tree->tensors.push_back({.module_path = id == 1 ? "trunk" : "head",
                             .name = "weight",
                             .tensor = {.id = id,
                                        .shape = {4},
                                        .elements = 4,
                                        .requires_grad = true,
                                        .is_leaf = true,
                                        .floating = true}});
    members->groups[0].push_back({.tensor = id, .requires_grad = true, .grad_defined = id == 1});
  }
  worker.put(std::move(tree));
  worker.put(std::move(members));
  for (std::int64_t step = 1; step <= 8; ++step) {
    const Stamp at{.step = step, .cycle = step, .thread = 1};
    worker.put(std::make_unique<BackwardEvent>(BackwardEvent{.at = at}));
    worker.put(GradientEvent{.at = at, .tensor = 1, .defined = true, .depth = 1});
    worker.put(BackwardEndEvent{.at = at});
    worker.put(OptimizerStepEvent{.at = at, .optimizer = 1});
    worker.put(CycleEndEvent{.at = at});
  }
  CHECK(worker.drain(seconds(60)));
  CHECK(worker.findings().empty() == (declared == "head*=external"));
  worker.finish(seconds(10), {});
}

TEST_CASE("Of a long suppressions file the first thousand lines are told", "[worker]") {
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.suppressions = dir / "ci.txt";
  std::ofstream suppressions(dir / "ci.txt");
  for (int i = 0; i < 3000; ++i) suppressions << "grad-* # never seen\n";
  suppressions.close();
  Worker worker(options);
  worker.start();
  worker.finish(seconds(60), {});
  const auto file = std::get<RankFile>(read_rank_file(dir / "out/rank-0.jsonl"));
  CHECK(file.suppressions.size() == 1000);
  CHECK(file.summary);
}

}  // namespace
}  // namespace ddpscope::test::worker_test
