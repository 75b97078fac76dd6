#include "checks/allocation_failure.h"
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::memory_out_of_memory_test {
namespace {
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;
constexpr ModuleId kConv = 1001;

std::string cpu_text(std::int64_t bytes) {
  return "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
         "memory: "
         "you tried to allocate " +
         std::to_string(bytes) + " bytes. Error code 12 (Cannot allocate memory)";
}

TensorInfo tensor(TensorId id, std::vector<std::int64_t> shape, bool requires_grad = false) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return {.id = id,
          .shape = std::move(shape),
          .dtype = "float32",
          .device = "cpu",
          .elements = elements,
          .requires_grad = requires_grad,
          .floating = true};
}

/// A model of one convolution whose first step is surveyed.
struct Run {
  explicit Run(const std::string& checks = "memory-out-of-memory", SiteSource* sites = nullptr)
      : program(checks, sites) {
    program.attach(1, {{.id = 1, .path = "conv1.weight", .shape = {256, 1024}}});
    program.optimizer(1, {1});
  }
  void forward(std::int64_t rows, bool grad_mode = true) {
    program.send_now(TensorEvent{.tensor = tensor(20, {rows, 1024})});
    OpEvent op{
        .op = "aten::convolution", .module = kConv, .grad_mode = grad_mode, .inputs = {20, 1}};
    op.outputs = {tensor(21, {rows, 256, 16}, /*requires_grad=*/grad_mode)};
    program.send_now(std::move(op));
  }
  void fail(std::int64_t bytes, ModuleId module = kConv, Phase phase = Phase::kForward) {
    program.send_now(ErrorEvent{.message = cpu_text(bytes), .module = module, .phase = phase});
  }
  const Finding& ended() {
    program.exit();
    REQUIRE(program.findings.size() == 1);
    return program.findings[0];
  }
  Program program;
};
}  // namespace

TEST_CASE("memory-out-of-memory names activations of a large batch", "[check]") {
  Run run;
  run.forward(/*rows=*/49000);
  run.fail(kGiB);
  CHECK(run.program.findings.empty());
  const Finding& finding = run.ended();
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "conv1");
  CHECK(finding.what ==
        "out of memory on a request of 1.0 GiB; with it activations saved for backward are 1.7 GiB "
        "of 1.9 GiB at batch 49000");
  CHECK(finding.why ==
        "memory grows with the rows of a batch: 37.4 KiB for each up to this operator");
  CHECK(cause_of(finding) == "saved_activations");
  CHECK(fact_of<std::int64_t>(finding, "requested_bytes") == kGiB);
  CHECK(fact_of<std::int64_t>(finding, "batch_rows") == 49000);
  CHECK(fact_of<std::int64_t>(finding, "bytes_per_sample") == 38297);
  CHECK(fact_of<std::vector<FactScalar>>(finding, "top_modules") ==
        std::vector<FactScalar>{std::string("conv1 802816000")});
  CHECK(fact_of<std::vector<FactScalar>>(finding, "bytes_by_class").size() == 6);
}

TEST_CASE("memory-out-of-memory takes operator and batch from the operator that threw", "[check]") {
  Run run;
  run.fail(64 * kMiB);
  run.fail(64 * kMiB);  // LibTorch caught it and threw it again
  run.program.send_now(OperatorFailedEvent{
      .op = "aten::convolution",
      .message = cpu_text(64 * kMiB),
      .module = kConv,
      .inputs = {{.tensor = tensor(20, {512, 4})}, {.tensor = tensor(1, {256, 1024})}}});
  const Finding& finding = run.ended();
  CHECK(finding.op == "aten::convolution");
  CHECK(fact_of<std::int64_t>(finding, "batch_rows") == 512);
}

namespace {
/// Line n called an operator: 1 makes a batch, others compute.
struct Lines final : SiteSource {
  Site site(StackId stack) override {
    return {.frames = {{.function = stack == 1 ? "at::_ops::randn::call" : "at::_ops::mm::call",
                        .library = true},
                       {.function = "main", .file = "/src/train.cpp", .line = stack}}};
  }
  std::string operator_called_by(std::string_view function) override {
    return function == "at::_ops::mm::call" ? "aten::mm" : "aten::randn";
  }
};
}  // namespace

TEST_CASE("memory-out-of-memory names operator and line by the stack", "[check]") {
  Lines lines;
  Run run("memory-out-of-memory", &lines);
  const StackId line = GENERATE(1, 2);
  run.program.send_now(ErrorEvent{.message = cpu_text(kGiB), .stack = line});
  const Finding& finding = run.ended();
  CHECK(finding.op == (line == 1 ? "aten::randn" : "aten::mm"));
  CHECK(cause_of(finding) == (line == 1 ? "batch" : "saved_activations"));
  CHECK(finding.what.starts_with(line == 1
                                     ? "out of memory on a request of 1.0 GiB at train.cpp:1"
                                     : "out of memory on a request of 1.0 GiB at train.cpp:2"));
  CHECK(finding.sites.size() == 1);
}

TEST_CASE("memory-out-of-memory tells what was asked for", "[check]") {
  Run run;
  SECTION("state of the optimizer") {
    run.fail(kGiB, 0, Phase::kOptimizer);
    CHECK(cause_of(run.ended()) == "optimizer");
  }
  SECTION("a batch, outside of all modules") {
    run.fail(kGiB, 0);
    CHECK(cause_of(run.ended()) == "batch");
  }
  SECTION("activations of a forward whose module is not known") {
    run.fail(kGiB, 0);
    run.program.send_now(OperatorFailedEvent{
        .op = "aten::mm",
        .message = cpu_text(kGiB),
        .inputs = {{.tensor = tensor(20, {512, 4})}, {.tensor = tensor(1, {256, 1024}, true)}}});
    CHECK(cause_of(run.ended()) == "saved_activations");
  }
  SECTION("a forward without grad mode, whose module is not known") {
    run.program.send_now(ErrorEvent{.message = cpu_text(kGiB), .grad_mode = false});
    run.program.send_now(OperatorFailedEvent{.op = "aten::mm",
                                             .message = cpu_text(kGiB),
                                             .inputs = {{.tensor = tensor(1, {256, 1024}, true)}}});
    CHECK(cause_of(run.ended()).empty());
  }
  SECTION("what nothing dominates is undecided") {
    run.fail(kGiB, 0, Phase::kBackward);
    const Finding& finding = run.ended();
    CHECK(cause_of(finding).empty());
    CHECK(finding.evidence_status == EvidenceStatus::kUndecided);
  }
}

TEST_CASE("memory-out-of-memory counts what a run holds", "[check]") {
  Run run;
  run.program.send(std::make_unique<HostCountsEvent>(
      HostCountsEvent{.resident_bytes = 3 * kGiB, .limit_bytes = 4 * kGiB, .cores = 2}));
  run.program.backward({1});
  auto members = std::make_unique<OptimizerMembersEvent>();
  members->at = run.program.now();
  members->optimizer = 1;
  members->type = "torch::optim::Adam";
  members->groups = {{{.tensor = 1, .requires_grad = true}}};
  run.program.send(std::move(members));
  run.program.send(OptimizerStepEvent{.at = run.program.now(), .optimizer = 1});
  run.fail(64 * kMiB);
  const auto& classes = fact_of<std::vector<FactScalar>>(run.ended(), "bytes_by_class");
  CHECK(classes[0] == FactScalar(std::string("parameters 1048576")));
  CHECK(classes[1] == FactScalar(std::string("gradients 1048576")));
  CHECK(classes[2] == FactScalar(std::string("optimizer 2097152")));
  CHECK(fact_of<std::int64_t>(run.program.findings[0], "free_bytes") == kGiB);
}

TEST_CASE("memory-out-of-memory reads what a device says", "[check]") {
  const std::string text =
      "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 24.00 GiB of "
      "which 1.25 GiB is free. Process 812 has 14.00 GiB memory in use. Including non-PyTorch "
      "memory, this process has 8.75 GiB memory in use. Of the allocated memory 2.00 GiB is "
      "allocated by PyTorch, and 6.00 GiB is reserved by PyTorch but unallocated.";
  const auto failure = allocation_failure(text);
  REQUIRE(failure.has_value());
  CHECK(failure->requested_bytes == 5 * kGiB / 2);
  CHECK(failure->capacity_bytes == 24 * kGiB);
  CHECK(failure->free_bytes == 5 * kGiB / 4);
  CHECK(failure->fragmented_bytes == 6 * kGiB);
  CHECK(failure->foreign_bytes == 14 * kGiB);

  Run run;
  SECTION("free memory in pieces") {
    run.program.send_now(ErrorEvent{.message = text, .module = kConv});
    CHECK(cause_of(run.ended()) == "fragmentation");
    CHECK(run.program.findings[0].what ==
          "out of memory on a request of 2.5 GiB; 6.0 GiB of 24.0 GiB are reserved and in no "
          "tensor");
  }
  SECTION("memory of other processes") {
    const std::string tight = text.substr(0, text.find("Of the allocated"));
    run.program.send_now(ErrorEvent{.message = tight, .module = kConv});
    CHECK(cause_of(run.ended()) == "foreign_process");
  }
}

TEST_CASE("memory-out-of-memory explains and is explained", "[check]") {
  Run run("*");
  run.fail(kGiB);
  run.program.send_now(OperatorFailedEvent{
      .op = "aten::convolution", .message = cpu_text(kGiB), .module = kConv, .inputs = {}});
  run.program.exit();
  const Findings causes = run.program.with_id("memory-out-of-memory");
  REQUIRE(!causes.empty());
  const Findings all = run.program.judge().findings();
  const auto failed = std::ranges::find(all, "module-operator-failed", &Finding::id);
  REQUIRE(failed != all.end());
  CHECK(failed->caused_by == causes[0].fingerprint);
}

TEST_CASE("memory-out-of-memory notes what the program survives", "[check]") {
  Run run;
  for (int i = 0; i < 2; ++i) {
    run.fail(kGiB);
    run.program.backward({1});
    run.program.step(1);
  }
  const Findings found = run.program.judge().findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::kNote);
  CHECK(found[0].occurrences == 2);
  CHECK(found[0].why.ends_with("; the program caught it and trained on"));
}

TEST_CASE("memory-out-of-memory stays silent", "[check]") {
  Run run;
  SECTION("on other exceptions") {
    run.program.send_now(ErrorEvent{.message = "no memory of this file", .module = kConv});
  }
  SECTION("on failures of the host outside of operators") {
    run.program.send_now(ErrorEvent{.message = "std::bad_alloc"});
  }
  run.program.exit();
  CHECK(run.program.findings.empty());
}

}  // namespace ddpscope::test::memory_out_of_memory_test
