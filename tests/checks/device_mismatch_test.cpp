#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::device_mismatch_test {
namespace {
constexpr ModuleId kHead = 1001;
constexpr char kOther[] = "cuda:1";

std::vector<Registered> net(std::string device = kOther) {
  return {{.id = 1, .path = "head.weight", .shape = {16, 4}, .device = device},
          {.id = 2, .path = "head.bias", .shape = {16}, .device = device},
          {.id = 3, .path = "scale", .shape = {2}}};
}

FailedInput input(TensorId id, std::string device, std::vector<std::int64_t> shape = {5, 4},
                  bool requires_grad = false) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return {.tensor = {.id = id,
                     .shape = std::move(shape),
                     .dtype = "float32",
                     .device = std::move(device),
                     .elements = elements,
                     .requires_grad = requires_grad,
                     .floating = true}};
}

OperatorFailedEvent failed(std::vector<FailedInput> inputs, std::string op = "aten::linear") {
  return {.op = std::move(op),
          .message = "Expected all tensors to be on the same device, but found at least two",
          .module = kHead,
          .inputs = std::move(inputs)};
}

std::string kind_of(const Finding& finding) { return fact_of<std::string>(finding, "owner_kind"); }

struct Attached : Program {
  Attached() : Program("device-mismatch,module-operator-failed") { attach(1, net()); }
  Finding after(OperatorFailedEvent event) {
    send_now(std::move(event));
    exit();
    const Findings found = with_id("device-mismatch");
    REQUIRE(found.size() == 1);
    return found[0];
  }
};

void train(Program& program, int steps) {
  for (int i = 0; i < steps; ++i) {
    program.backward({1});
    program.step(1);
    program.zero_grad(1);
  }
}
}  // namespace

TEST_CASE("device-mismatch names a batch that was not moved", "[check]") {
  Attached program;
  const Finding finding =
      program.after(failed({input(20, "cpu"), input(1, kOther, {16, 4}, true)}));
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "head");
  CHECK(finding.subject.empty());
  CHECK(finding.op == "aten::linear");
  CHECK(finding.what == "input [5, 4] is on cpu, the other inputs on cuda:1");
  CHECK(finding.fixes[0].text == "move it to cuda:1 before the call: x.to(device)");
  CHECK(kind_of(finding) == "batch");
  CHECK(fact_of<std::int64_t>(finding, "argument") == 0);
  CHECK(fact_of<std::string>(finding, "shape") == "[5, 4]");
  CHECK(fact_of<std::vector<FactScalar>>(finding, "devices").size() == 2);
}

TEST_CASE("device-mismatch names a tensor that no module registers", "[check]") {
  Attached program;
  program.loose_module("torch::nn::LinearImpl", {30});
  program.leaf(30, {7, 4});
  const Finding finding =
      program.after(failed({input(20, kOther), input(30, "cpu", {7, 4}, true)}));
  CHECK(finding.subject == "tensor [7, 4]");
  CHECK(finding.what ==
        "tensor [7, 4] is on cpu, the other inputs on cuda:1; it is registered nowhere");
  CHECK(finding.why ==
        "to(device) moves registered tensors only; a live torch::nn::LinearImpl holds it");
  CHECK(finding.fixes[0].text.starts_with("register_module(...)"));
  CHECK(kind_of(finding) == "unregistered");
}

TEST_CASE("device-mismatch takes a tensor without grad that is kept for no batch", "[check]") {
  Attached program;
  program.optimizer(1, {1});
  program.leaf(30);
  program.op({.name = "aten::mul", .inputs = {1, 30}, .outputs = {31}});
  train(program, 1);
  const Finding finding = program.after(failed({input(1, kOther, {16, 4}), input(30, "cpu")}));
  CHECK(kind_of(finding) == "unregistered");
}

TEST_CASE("device-mismatch names a registered tensor and when it was moved", "[check]") {
  Attached program;
  program.optimizer(1, {1});
  train(program, 2);
  std::vector<Registered> moved = net();
  moved[1].device = "cuda:0";
  program.attach(1, moved);
  const Finding finding = program.after(
      failed({input(20, kOther), input(1, kOther, {16, 4}), input(2, "cuda:0", {16}, true)}));
  CHECK(finding.module_path == "head");
  CHECK(finding.subject == "bias");
  CHECK(finding.what == "head.bias [16] is on cuda:0, the other inputs on cuda:1");
  CHECK(finding.why.ends_with("; it was moved there in step 3"));
  CHECK(kind_of(finding) == "registered");
  CHECK(fact_of<std::string>(finding, "owner_path") == "head.bias");
  CHECK(fact_of<std::int64_t>(finding, "moved_at_step") == 3);
  CHECK(fact_of<std::int64_t>(finding, "argument") == 2);
}

TEST_CASE("device-mismatch names the optimizer of a tensor", "[check]") {
  Attached program;
  program.leaf(40, {5, 4});
  program.optimizer(1, {1, 40});
  const Finding finding = program.after(failed({input(40, "cpu"), input(1, kOther, {16, 4})}));
  CHECK(kind_of(finding) == "optimizer_member");
  CHECK(fact_of<std::string>(finding, "owner_path") == "SGD");
}

TEST_CASE("device-mismatch names the operator that computed a tensor", "[check]") {
  Attached program;
  program.op({.name = "aten::relu", .inputs = {20}, .outputs = {21}, .module = kHead});
  const Finding finding =
      program.after(failed({input(1, kOther, {16, 4}), input(21, "cpu"), input(20, "cpu", {1})}));
  CHECK(kind_of(finding) == "computed");
  CHECK(finding.what ==
        "tensor [5, 4] made by aten::relu in head is on cpu, the other inputs on cuda:1; so are 1 "
        "more");
}

TEST_CASE("device-mismatch takes the larger part where no model is attached", "[check]") {
  Program program("device-mismatch");
  program.send_now(failed({input(20, "meta"), input(21, "cpu"), input(22, "cpu")}));
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "input [5, 4] is on meta, the other inputs on cpu");
}

TEST_CASE("device-mismatch explains the operator that failed", "[check]") {
  Attached program;
  const Finding finding = program.after(failed({input(20, "cpu"), input(1, kOther, {16, 4})}));
  const Findings folded = program.with_id("module-operator-failed");
  REQUIRE(!folded.empty());
  CHECK(folded.back().caused_by == finding.fingerprint);
}

TEST_CASE("device-mismatch is explained by what no module registers", "[check]") {
  Program program("device-mismatch,module-unregistered");
  program.attach(1, net());
  program.create(1);
  program.members(1, {{1}});
  program.leaf(30, {7, 4}, "cpu");
  for (int i = 0; i < 5; ++i) {
    program.op({.name = "aten::mul", .inputs = {1, 30}, .outputs = {31}});
    program.backward({1, 30});
    program.step(1);
    program.zero_grad(1);
  }
  program.send_now(failed({input(20, kOther), input(30, "cpu", {7, 4}, true)}));
  program.exit();
  const Findings found = program.with_id("device-mismatch");
  REQUIRE(found.size() == 1);
  REQUIRE(program.with_id("module-unregistered").size() == 1);
  CHECK(found[0].caused_by == program.with_id("module-unregistered")[0].fingerprint);
}

TEST_CASE("device-mismatch tells the devices where operators were not looked at", "[check]") {
  Attached program;
  program.send_now(
      ErrorEvent{.message = "Expected all tensors to be on the same device, but found at least two "
                            "devices, cuda:1 and cpu! (when checking argument for argument mat2)",
                 .module = kHead});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "an operator threw on inputs of cuda:1 and cpu");
  CHECK(program.findings[0].confidence == Confidence::kMedium);
  CHECK(program.findings[0].module_path == "head");
}

TEST_CASE("device-mismatch only notes what the program recovers from", "[check]") {
  Attached program;
  program.optimizer(1, {1});
  program.send_now(ErrorEvent{.message = "Expected all tensors to be on the same device"});
  program.send_now(failed({input(20, "cpu"), input(1, kOther, {16, 4})}));
  train(program, 1);
  const Findings found = program.with_id("device-mismatch");
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Severity::kNote);
}

TEST_CASE("device-mismatch stays silent", "[check]") {
  Attached program;
  FailedInput index = input(22, "cpu", {3});
  index.tensor.floating = false;
  SECTION("on numbers of the CPU") {
    program.send_now(failed({input(20, kOther), input(21, "cpu", {})}));
  }
  SECTION("on indices of the CPU") {
    program.send_now(failed({input(20, kOther), index}, "aten::index"));
  }
  SECTION("on copies between devices") {
    program.send_now(failed({input(20, kOther), input(21, "cpu")}, "aten::copy_"));
  }
  SECTION("on inputs of one device") {
    program.send_now(failed({input(20, kOther), input(21, kOther)}));
  }
  SECTION("on other exceptions") { program.send_now(ErrorEvent{.message = "no such file"}); }
  SECTION("where nothing was thrown") {
    program.leaf(30, {5, 4}, "cpu");
    program.op({.name = "aten::mul", .inputs = {1, 30}, .outputs = {31}});
  }
  program.exit();
  CHECK(program.with_id("device-mismatch").empty());
}

TEST_CASE("device-mismatch speaks of indices and numbers of a device that is not meant",
          "[check]") {
  Attached program;
  FailedInput odd = input(22, GENERATE("cuda:0", "cpu"), {3});
  odd.tensor.floating = odd.tensor.device == "cpu";
  program.after(failed({input(20, kOther), odd}, "aten::index"));
}

}  // namespace ddpscope::test::device_mismatch_test
