#include "tests/support/catch.h"
#include "tests/support/reducer_events.h"

namespace ddpscope::test::module_operator_failed_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "head.weight", .shape = {16, 4}}};
constexpr ModuleId kHead = 1001;

FailedInput input(TensorId id, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  return {.tensor = {.id = id, .shape = std::move(shape), .dtype = "float32", .device = "cpu"},
          .strides = std::move(strides)};
}

OperatorFailedEvent bad_view() {
  return {.op = "aten::view",
          .message = "view size is not compatible with input tensor's size and stride\nmore",
          .module = kHead,
          .inputs = {input(22, {8, 64, 7}, {448, 1, 64})}};
}

void train(Program& program, int steps) {
  for (int i = 0; i < steps; ++i) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}, .module = kHead});
    program.backward({1});
    program.step(1);
    program.zero_grad(1);
  }
}

/// Line n threw, of which the program called `aten::linear` in lines below 100 and nothing above.
struct Throwing final : SiteSource {
  Site site(StackId stack) override {
    const Frame check = {.function = "c10::detail::torchCheckFail", .library = true};
    const Frame mm = {.function = "at::_ops::mm::call", .library = true};
    const Frame linear = {.function = "at::_ops::linear::call", .library = true};
    const Frame own = {.function = "main", .file = "/src/train.cpp", .line = stack};
    if (stack >= 100) return {.frames = {check, own, linear}};
    return {.frames = {check, mm, linear, own, {.function = "at::_ops::add::call"}}};
  }
  std::string operator_called_by(std::string_view function) override {
    if (function == "at::_ops::mm::call") return "aten::mm";
    return function == "at::_ops::linear::call" ? "aten::linear" : "";
  }
};
}  // namespace

TEST_CASE("module-operator-failed names operator and line by the stack in any step", "[check]") {
  Throwing sites;
  Program program("module-operator-failed", &sites);
  program.attach(1, kNet);
  program.op({.name = "aten::linear", .inputs = {20, 1}, .outputs = {21}, .module = kHead});
  const ModuleId module = GENERATE(kHead, ModuleId{0});
  program.send_now(ErrorEvent{.message = "some text", .module = module, .stack = 7});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.op == "aten::linear");
  CHECK(finding.confidence == Confidence::kHigh);
  CHECK(finding.what == (module == kHead ? "threw at train.cpp:7; when it was last surveyed, in "
                                           "step 1, it ran on [16, 4]"
                                         : "threw at train.cpp:7"));
  REQUIRE(finding.sites.size() == 1);
  CHECK(finding.sites[0].role == "called");
}

TEST_CASE("module-operator-failed has the shapes of computed inputs, too", "[check]") {
  Throwing sites;
  Program program("module-operator-failed", &sites);
  program.attach(1, kNet);
  program.op({.name = "aten::relu", .inputs = {1}, .outputs = {30}, .shape = {7, 3}});
  program.op({.name = "aten::linear", .inputs = {30, 1}, .outputs = {21}, .module = kHead});
  program.send_now(ErrorEvent{.message = "some text", .module = kHead, .stack = 7});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what.ends_with("it ran on [7, 3]; [16, 4]"));
}

TEST_CASE("module-operator-failed knows what LibTorch says of shapes", "[check]") {
  const auto [message, why] = GENERATE(table<std::string, std::string>(
      {{"Given groups=1, weight of size [4, 3, 3, 3], expected input[4, 4, 4, 4] to have 3 "
        "channels, but got 4 channels instead",
        "the input has other channels"},
       {"input.size(-1) must be equal to input_size. Expected 4, got 5", "the last dimension"},
       {"Expected input batch_size (3) to match target batch_size (4).", "input and target"},
       {"0D or 1D target tensor expected, multi-target not supported", "labels are one class"},
       {"The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        "the shapes neither agree nor broadcast"},
       {"Sizes of tensors must match except in dimension 1. Expected size 4 but got size 3",
        "all other dimensions"},
       {"stack expects a non-empty TensorList", "its list is empty"}}));
  Program program("module-operator-failed");
  program.send_now(OperatorFailedEvent{.op = "aten::mm", .message = message});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.starts_with(why));
  CHECK(program.findings[0].why.ends_with(message));
}

TEST_CASE("module-operator-failed is silent on what the program itself throws", "[check]") {
  Throwing sites;
  Program program("module-operator-failed", &sites);
  program.attach(1, kNet);
  program.send_now(ErrorEvent{.message = "some text", .stack = 100});
  program.exit();
  CHECK(program.findings.empty());
}

TEST_CASE("module-operator-failed names module, inputs and their producers", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}, .module = kHead});
  program.op({.name = "aten::permute", .inputs = {21}, .outputs = {22}});
  program.send_now(bad_view());
  CHECK(program.findings.empty());
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kError);
  CHECK(finding.module_path == "head");
  CHECK(finding.op == "aten::view");
  CHECK(finding.what == "threw on input [8, 64, 7], strides (448, 1, 64) made by aten::permute");
  CHECK(finding.why ==
        "view needs a layout that the input does not have: view size is not compatible with input "
        "tensor's size and stride");
  CHECK(finding.fixes[0].text == "reshape(...) instead of view(...)");
}

TEST_CASE("module-operator-failed knows gradients that are views of buckets", "[check]") {
  const bool views = GENERATE(true, false);
  Program program("module-operator-failed");
  program.attach(1, kNet);
  ReducerEvent built = reducer(ReducerStage::kBuilt);
  built.bucket_views = views;
  program.send_now(std::move(built));
  program.send_now(OperatorFailedEvent{.op = "aten::detach_",
                                       .message = "Can't detach views in-place. Use detach()",
                                       .inputs = {input(22, {4}, {1})}});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK((finding.why.find("gradient_as_bucket_view") != std::string::npos) == views);
  CHECK(finding.fixes.size() == (views ? 3 : 2));
  CHECK(finding.fixes[0].text.starts_with(views ? "zero_grad() of the module"
                                                : "set what it is a view of"));
}

TEST_CASE("module-operator-failed names a parameter by its path", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.send_now(
      OperatorFailedEvent{.op = "aten::linear",
                          .message = "mat1 and mat2 shapes cannot be multiplied (5x8 and 4x16)",
                          .module = kHead,
                          .inputs = {input(22, {5, 8}, {8, 1}), input(1, {16, 4}, {4, 1})}});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "threw on inputs [5, 8]; [16, 4] of head.weight");
  CHECK(program.findings[0].fixes[0].text == "build the layer for this input width");
  CHECK(fact_of<std::vector<FactScalar>>(program.findings[0], "owners")[1] ==
        FactScalar(std::string("head.weight")));
}

TEST_CASE("module-operator-failed holds what a worker threw while others train", "[check]") {
  Program program("module-operator-failed");
  program.optimizer(1, {1});
  program.step(1);
  program.thread = 2;
  program.send_now(OperatorFailedEvent{.op = "aten::stack", .message = "unequal"});
  program.thread = 1;
  program.step(1);
  CHECK(program.findings.empty());
  const bool is_end = GENERATE(true, false);
  program.send(ExitEvent{.at = {.step = is_end ? 0 : 3}});
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (is_end ? Severity::kNote : Severity::kError));
}

TEST_CASE("module-operator-failed has a hint for samples of unequal size", "[check]") {
  Program program("module-operator-failed");
  program.send_now(OperatorFailedEvent{
      .op = "aten::stack",
      .message = "stack expects each tensor to be equal size, but got [3] at entry 0 and [4]",
      .inputs = {input(22, {3}, {1}), input(23, {4}, {1}), input(24, {4}, {1}), input(25, {4}, {1}),
                 input(26, {4}, {1})}});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "threw on inputs [3]; [4] (4 times)");
  CHECK(program.findings[0].fixes[0].text.starts_with("pad to one length"));
}

TEST_CASE("module-operator-failed tells dtypes where they differ", "[check]") {
  Program program("module-operator-failed");
  const auto [message, fix] = GENERATE(table<std::string, std::string>(
      {{"expected scalar type Long but found Float", "to(torch::kLong)"},
       {"Expected tensor for argument #1 'indices' to have one of the following scalar types: "
        "Long, Int; but got CPUFloatType instead",
        "to(torch::kLong)"},
       {"a leaf Variable that requires grad is being used in an in-place operation.",
        "torch::NoGradGuard"},
       {"probability tensor contains either `inf`, `nan` or element < 0", "look for what made NaN"},
       {"mat1 and mat2 must have the same dtype, but got Double and Float", "to() the dtype"},
       {"expected scalar type Float but found Double", "to() the dtype"}}));
  FailedInput labels = input(22, {5}, {1});
  labels.tensor.dtype = "float64";
  program.send_now(OperatorFailedEvent{
      .op = "aten::nll_loss_forward", .message = message, .inputs = {labels, input(23, {5}, {1})}});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "threw on inputs float64[5]; float32[5]");
  CHECK(program.findings[0].fixes.at(0).text.starts_with(fix));
}

TEST_CASE("module-operator-failed compares no shapes where memory ran out", "[check]") {
  Program program("module-operator-failed");
  const std::string text = GENERATE("DefaultCPUAllocator: can't allocate memory: you tried to",
                                    "CUDA out of memory. Tried to allocate 20.00 GiB");
  program.send_now(OperatorFailedEvent{.op = "aten::mm", .message = text});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why == "memory ran out: " + text);
  CHECK(program.findings[0].fixes[0].text.starts_with("less at once"));
}

TEST_CASE("module-operator-failed describes later steps from the last survey", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.leaf(30, {5, 4});
  program.optimizer(1, {1});
  train(program, 2);
  program.send_now(ErrorEvent{.message = "some text", .module = kHead});
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].confidence == Confidence::kMedium);
  CHECK(program.findings[0].what ==
        "the module threw; when it was last surveyed, in step 2, it ran aten::mm on [5, 4]; "
        "[16, 4]");
}

TEST_CASE("module-operator-failed tells an operator once, not also by its module", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}, .module = kHead});
  program.send_now(ErrorEvent{.message = "some text", .module = kHead});
  program.send_now(bad_view());
  program.exit();
  CHECK(program.findings.size() == 1);
}

TEST_CASE("module-operator-failed tells both operators that throw in one step", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, {kNet[0], {.id = 2, .path = "tail.weight"}});
  for (const ModuleId module : {kHead, kHead, kHead + 1}) {
    program.op({.name = "aten::mm", .inputs = {20, 1}, .outputs = {21}, .module = module});
    program.send_now(ErrorEvent{.message = "shapes cannot be multiplied", .module = module});
  }
  program.exit();
  CHECK(program.findings.size() == 2);
}

TEST_CASE("module-operator-failed only notes what the program recovers from", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  program.send_now(bad_view());
  train(program, 2);
  program.exit();
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kNote);
  CHECK(program.findings[0].why.ends_with("; the program caught it and trained on"));
}

TEST_CASE("module-operator-failed knows at the end what was caught before", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  const bool caught_before = GENERATE(true, false);
  const bool by_exception = GENERATE(true, false);
  if (caught_before) program.send_now(bad_view());
  train(program, 1);
  program.send_now(bad_view());
  program.send(by_exception ? ExitEvent{program.now()} : ExitEvent{});
  const Findings findings = program.judge().findings();
  REQUIRE(findings.size() == 1);
  const bool is_note = caught_before && !by_exception;
  CHECK(findings[0].severity == (is_note ? Severity::kNote : Severity::kError));
}

TEST_CASE("module-operator-failed stays silent on exceptions not from operators", "[check]") {
  Program program("module-operator-failed");
  program.attach(1, kNet);
  program.optimizer(1, {1});
  train(program, 1);
  const ModuleId module = GENERATE(0, 55);
  program.send_now(ErrorEvent{.message = "no such file", .module = module});
  program.exit();
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_operator_failed_test
