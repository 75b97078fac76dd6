#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::norm_batch_of_one_test {
namespace {
constexpr char kRefused[] =
    "Expected more than 1 value per channel when training, got input size [1, 4, 1, 1]\nmore";
constexpr ModuleId kHead = 1001;  // in the order of paths: "", "head", "norm", ...
constexpr ModuleId kNorm = 1002;

std::vector<Registered> net() {
  return {{.id = 1, .path = "head.weight", .shape = {16, 4}},
          {.id = 2, .path = "norm.weight"},
          {.id = 5, .path = "norm.running_mean", .requires_grad = false, .is_buffer = true}};
}

TrainingOpEvent norm(std::vector<std::int64_t> input, TensorId statistics = 5) {
  return {.op = "aten::batch_norm", .statistics = statistics, .input = std::move(input)};
}

void train_step(Program& program) {
  program.backward({1});
  program.step(1);
  program.zero_grad(1);
}

struct Trained : Program {
  Trained() : Program("norm-batch-of-one") {
    attach(1, net());
    optimizer(1, {1, 2});
  }
  void norm_and_step(const TrainingOpEvent& event) {
    send_now(event);
    train_step(*this);
  }
};
}  // namespace

TEST_CASE("norm-batch-of-one names the layer that LibTorch refused", "[check]") {
  Trained program;
  train_step(program);
  program.send_now(ErrorEvent{.message = kRefused, .asked_mode = kNorm});
  CHECK(program.findings.empty());
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.step == 2);
  CHECK(finding.module_path == "norm");
  CHECK(finding.op == "aten::batch_norm");
  CHECK(finding.what == "1 value per channel, input [1, 4, 1, 1]");
  CHECK(finding.why.starts_with("the batch has 1 row; "));
  CHECK(finding.fixes[0].text.find("drop_last(true)") != std::string::npos);
  CHECK(fact_of<std::int64_t>(finding, "values_per_channel") == 1);
  CHECK(fact_of<std::int64_t>(finding, "batch_rows") == 1);
  CHECK(fact_of<std::string>(finding, "input_shape") == "[1, 4, 1, 1]");
}

TEST_CASE("norm-batch-of-one counts the values of all ranks of a layer over them", "[check]") {
  Trained program;
  const std::int64_t values = GENERATE(1, 3);
  const TrainingOpEvent event{
      .op = "ddpscope::sync_batch_norm", .module = kNorm, .input = {values, 4}};
  for (int step = 0; step < 3; ++step) program.norm_and_step(event);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == (values == 1 ? Severity::kError : Severity::kWarning));
  CHECK(finding.op == "ddpscope::sync_batch_norm");
  CHECK(finding.module_path == "norm");
  CHECK(finding.what == (values == 1 ? "1 value per channel on all ranks together"
                                     : "3 values per channel on all ranks together, in 2 steps"));
  CHECK(finding.why.starts_with("the batches of all ranks are that short; "));
  CHECK(fact_of<std::int64_t>(finding, "values_per_channel") == values);
}

TEST_CASE("norm-batch-of-one names no module that cannot be the layer", "[check]") {
  Trained program;
  program.send_now(ErrorEvent{.message = kRefused, .asked_mode = GENERATE(kHead, 0, 77)});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path.empty());
}

TEST_CASE("norm-batch-of-one only notes what the program recovers from", "[check]") {
  Trained program;
  program.send_now(ErrorEvent{.message = kRefused, .asked_mode = kNorm});
  train_step(program);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(program.findings[0].why.ends_with("; the program caught it and trained on"));
}

TEST_CASE("norm-batch-of-one explains why the rank failed", "[check]") {
  Program program("norm-batch-of-one,module-operator-failed");
  program.attach(1, net());
  program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}, .module = kHead});
  program.send_now(ErrorEvent{.message = kRefused, .module = kHead, .asked_mode = kNorm});
  program.exit();
  const Findings failed = program.with_id("module-operator-failed");
  REQUIRE(!failed.empty());
  CHECK(failed.back().caused_by == program.with_id("norm-batch-of-one").at(0).fingerprint);
}

TEST_CASE("norm-batch-of-one reports a single value that an operator takes", "[check]") {
  Trained program;
  program.norm_and_step(norm({1, 4}));
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kError);
  CHECK(program.findings[0].module_path == "norm");
}

TEST_CASE("norm-batch-of-one warns of few values in two steps", "[check]") {
  Trained program;
  program.send_now(norm({2, 4, 1, 2}));
  program.norm_and_step(norm({2, 4, 1, 2}));
  CHECK(program.findings.empty());
  program.norm_and_step(norm({32, 4}));
  program.norm_and_step(norm({3, 4}));
  program.norm_and_step(norm({2, 4}));
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.what == "3 values per channel, input [3, 4], in 2 steps");
  CHECK(finding.step == 3);
}

TEST_CASE("norm-batch-of-one tells many layers at their common module", "[check]") {
  Program program("norm-batch-of-one");
  std::vector<Registered> tensors = {{.id = 1, .path = "head.weight"}};
  const int layers = GENERATE(3, 4);
  for (int i = 0; i < layers; ++i) {
    tensors.push_back({.id = 20U + i, .path = "trunk.norm" + std::to_string(i) + ".running_mean"});
  }
  program.attach(1, tensors);
  program.optimizer(1, {1});
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int i = 0; i < layers; ++i) program.send_now(norm({i == 1 ? 2 : 4, 4}, 20 + i));
    train_step(program);
  }
  if (layers == 3) {
    CHECK(program.findings.size() == 3);
    return;
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].module_path == "trunk");
  CHECK(program.findings[0].what ==
        "4 layers over few values; in trunk.norm1 2 values per channel, input [2, 4], in 2 steps");
  CHECK(fact_of<std::int64_t>(program.findings[0], "modules_count") == 4);
}

TEST_CASE("norm-batch-of-one forecasts a last batch of one row", "[check]") {
  Trained program;
  train_step(program);
  program.send_now(BatchRequestEvent{.rows = 8, .rows_left = 33});
  program.send_now(norm({8, 4}));
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.module_path == "norm");
  CHECK(finding.step == 2);
  CHECK(finding.what == "1 value per channel in the last of 5 batches, if it is kept");
  CHECK(finding.why.starts_with("the sampler has 33 rows left, for batches of 8: "));
  CHECK(fact_of<std::int64_t>(finding, "forecast_step") == 6);
  CHECK(fact_of<std::int64_t>(finding, "batch_rows") == 1);
  program.send_now(norm({8, 4}));
  CHECK(program.findings.size() == 1);
}

TEST_CASE("norm-batch-of-one forecasts nothing", "[check]") {
  Trained program;
  BatchRequestEvent request{.rows = 8, .rows_left = 33};
  TrainingOpEvent event = norm({8, 4});
  SECTION("where the last batch has more rows") { request.rows_left = GENERATE(32, 34, 39); }
  SECTION("where this batch is the last one") { request.rows_left = 1; }
  SECTION("of layers with more values per channel") { event = norm({8, 4, 2, 1}); }
  SECTION("of layers that are given other rows") { event = norm({16, 4}); }
  SECTION("in eval mode") { event.in_eval = true; }
  SECTION("of layers that are synchronised over ranks") { event.op = "ddpscope::sync_batch_norm"; }
  SECTION("from another step, as an evaluation's loader is asked") {
    program.send_now(request);
    train_step(program);
    request.rows_left = 32;
  }
  SECTION("where an evaluation's loader is asked in the same step") {
    program.send_now(BatchRequestEvent{.rows = 8, .rows_left = 33});
    request.rows_left = GENERATE(32, 33);
  }
  program.send_now(request);
  program.norm_and_step(event);
  program.exit();
  CHECK(program.findings.empty());
}

TEST_CASE("norm-batch-of-one stays silent", "[check]") {
  Trained program;
  TrainingOpEvent event = norm({1, 4});
  SECTION("on one row with five values per channel") { event = norm({1, 4, 5, 1}); }
  SECTION("in eval mode") { event.in_eval = true; }
  SECTION("without grad") { event.grad_mode = false; }
  SECTION("on layers that are synchronised over ranks with five values and more") {
    event = norm({5, 4});
    event.op = "ddpscope::sync_batch_norm";
  }
  SECTION("where the shape is not told") { event.input.clear(); }
  for (int i = 0; i < 3; ++i) program.norm_and_step(event);
  program.send_now(ErrorEvent{.message = "Expected at least 2 input dimensions, but got 1"});
  program.exit();
  CHECK(program.findings.empty());
}

TEST_CASE("norm-batch-of-one stays silent on few values in one step alone", "[check]") {
  Trained program;
  program.norm_and_step(norm({2, 4}));
  for (int i = 0; i < 3; ++i) program.norm_and_step(norm({8, 4}));
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::norm_batch_of_one_test
