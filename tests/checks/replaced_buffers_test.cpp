// What module-replaced finds of buffers.
#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::replaced_buffers_test {

TEST_CASE("module-replaced warns of a running mean that was assigned", "[check]") {
  Program program("module-replaced");
  const std::string type = GENERATE("torch::nn::BatchNorm1dImpl", "Norm");
  program.module_types["norm"] = type;
  program.attach(1, {{.id = 1, .path = "norm.weight"},
                     {.id = 2, .path = "norm.mean", .is_buffer = true},
                     {.id = 4, .path = "norm.var", .is_buffer = true}});
  program.optimizer(1, {1});
  program.send_now(TensorEvent{
      {}, {.id = 3, .shape = {4}, .dtype = "float32", .is_leaf = true, .floating = true}});
  const bool is_replaced = GENERATE(true, false);
  const ModuleId module = GENERATE(1001, 0);  // its forward is seen or not
  for (int i = 0; i < 4; ++i) {
    std::vector<TensorId> inputs = {30, 1, is_replaced ? TensorId{3} : TensorId{2}, 4};
    if (!is_replaced) inputs.push_back(3);  // a constant of its shape beside it
    program.op(
        {.name = "aten::native_batch_norm", .inputs = inputs, .outputs = {31}, .module = module});
    program.backward({1});
    program.step(1);
  }
  REQUIRE(program.findings.size() == (is_replaced && type != "Norm" ? 1U : 0U));
  if (program.findings.empty()) return;
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.subject == "mean");
  CHECK(finding.what ==
        "1 buffer (4 elements): forward uses unregistered tensors of the same shape instead "
        "(member_reassigned)");
  CHECK(finding.fixes.size() == 1);
}

TEST_CASE("module-replaced warns of a buffer whose successor is read", "[check]") {
  Program program("module-replaced");
  program.attach(
      1, {{.id = 1, .path = "embed.weight"},
          {.id = 5, .path = "mean", .shape = {8, 32}, .requires_grad = false, .is_buffer = true}});
  program.optimizer(1, {1});
  const bool is_quiet = GENERATE(true, false);
  const bool is_read = GENERATE(true, false);
  const bool is_read_too = GENERATE(true, false);
  for (TensorId i = 0; i < 18; ++i) {
    const TensorId previous = i == 0 || is_read ? 5 : 39 + i;
    std::vector<TensorId> inputs = {previous, 31};
    if (is_read_too) inputs.push_back(5);
    if (i < 3) program.op({.name = "aten::lerp", .inputs = inputs, .outputs = {40 + i}});
    program.backward({1});
    program.step(1);
    if (i == 15 && is_quiet) program.send(QuietBufferEvent{program.now(), 5});
  }
  REQUIRE(program.findings.size() == (is_quiet && !is_read && !is_read_too ? 1U : 0U));
  if (program.findings.empty()) return;
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(cause_of(program.findings[0]) == "buffer_rebound");
  CHECK(program.findings[0].subject == "mean");
}

}  // namespace ddpscope::test::replaced_buffers_test
