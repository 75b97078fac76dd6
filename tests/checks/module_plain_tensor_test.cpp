#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_plain_tensor_test {
namespace {
const std::vector<Registered> kNet = {{.id = 1, .path = "in.weight"},
                                      {.id = 2, .path = "out.weight"}};

void constant(Program& program, TensorId id, const std::string& device = "cpu",
              std::vector<std::int64_t> shape = {3}, bool floating = true) {
  program.send_now(TensorEvent{.tensor = {.id = id,
                                          .shape = std::move(shape),
                                          .dtype = "float32",
                                          .device = device,
                                          .elements = 3,
                                          .storage = id,
                                          .is_leaf = true,
                                          .floating = floating}});
}

/// in.weight, then an operator that also reads `extra`, then out.weight.
void forward(Program& program, TensorId extra, bool writes = false) {
  program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
  if (writes) program.op({.name = "aten::add_", .inputs = {extra, 31}, .outputs = {extra}});
  program.op({.name = "aten::mul", .inputs = {31, extra}, .outputs = {32}});
  program.op({.name = "aten::relu", .inputs = {32}, .outputs = {33}});
  program.op({.name = "aten::mm", .inputs = {33, 2}, .outputs = {34}});
}

void train(Program& program, TensorId extra, int steps, bool writes = false) {
  for (int i = 0; i < steps; ++i) {
    forward(program, extra, writes);
    program.backward({1, 2});
    program.step(1);
  }
}

void transpose(Program& program, TensorId parameter, TensorId view) {
  auto event = std::make_unique<OpEvent>();
  event->at = program.now();
  event->op = "aten::t";
  event->grad_mode = true;
  event->inputs = {parameter};
  event->outputs = {{.id = view, .storage = parameter, .requires_grad = true, .floating = true}};
  program.send(std::move(event));
}
void part_of(Program& program, TensorId whole, TensorId part, std::int64_t offset_bytes) {
  program.send_now(TensorEvent{.tensor = {.id = part,
                                          .shape = {1},
                                          .dtype = "float32",
                                          .device = "cpu",
                                          .elements = 1,
                                          .storage = whole,
                                          .storage_offset_bytes = offset_bytes,
                                          .is_leaf = true,
                                          .floating = true,
                                          .view_of = whole}});
}
}  // namespace

TEST_CASE("module-plain-tensor notes a constant that is not registered", "[check]") {
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  constant(program, 9);
  train(program, 9, 1);
  CHECK(program.findings.empty());
  train(program, 9, 3);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.op == "aten::mul");
  CHECK(finding.subject == "tensor [3]");
  CHECK(finding.what == "plain tensor [3] float32 on cpu is read each step and not registered");
}

TEST_CASE("module-plain-tensor notes a constant of which each step reads one part", "[check]") {
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  constant(program, 9);
  const bool is_batch = GENERATE(false, true);
  for (TensorId step = 0; step < 4; ++step) {
    part_of(program, 9, 50 + step, is_batch ? static_cast<std::int64_t>(4 * step) : 8);
    train(program, 50 + step, 1);
  }
  REQUIRE(program.findings.size() == (is_batch ? 0U : 1U));
  if (is_batch) return;
  CHECK(program.findings[0].subject == "tensor [3]");
  CHECK(program.findings[0].op == "aten::mul");
}

TEST_CASE("module-plain-tensor takes a part of the data for none that enters the model",
          "[check]") {
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  constant(program, 9);
  for (TensorId step = 0; step < 4; ++step) {
    part_of(program, 9, 50 + step, 0);
    program.op({.name = "aten::mm", .inputs = {50 + step, 1}, .outputs = {31}});
    program.op({.name = "aten::mm", .inputs = {31, 2}, .outputs = {34}});
    program.backward({1, 2});
    program.step(1);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("module-plain-tensor warns of a constant on another device", "[check]") {
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  const bool is_number = GENERATE(true, false);
  constant(program, 9, is_number ? "cpu" : "cuda:0",
           is_number ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{3});
  train(program, 9, 2);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == (is_number ? Severity::kNote : Severity::kWarning));
  CHECK(fact_of<std::string>(program.findings[0], "module_device") == "cpu");
}

TEST_CASE("module-plain-tensor warns of a statistic that is written each step", "[check]") {
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  constant(program, 9);
  train(program, 9, 2, /*writes=*/true);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == Severity::kWarning);
  CHECK(fact_of<bool>(program.findings[0], "written_each_step"));
}

TEST_CASE("module-plain-tensor takes what is returned as it is for no write", "[check]") {
  struct Returned {
    Op op;
    Severity severity;
  };
  const auto [op, severity] = GENERATE(
      Returned{{.name = "aten::broadcast_tensors", .inputs = {31, 9}, .outputs = {31, 9}},
               Severity::kNote},
      Returned{{.name = "aten::broadcast_tensors", .inputs = {31, 9}, .outputs = {35, 9}},
               Severity::kNote},
      Returned{{.name = "aten::type_as", .inputs = {9, 9}, .outputs = {9}}, Severity::kNote},
      Returned{{.name = "aten::mean", .inputs = {31, 9}, .outputs = {9}}, Severity::kWarning},
      Returned{{.name = "own::update", .inputs = {9, 31}, .outputs = {9}}, Severity::kWarning});
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  constant(program, 9);
  for (int i = 0; i < 3; ++i) {
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    program.op(op);
    program.op({.name = "aten::mul", .inputs = {31, 9}, .outputs = {32}});
    program.op({.name = "aten::mm", .inputs = {32, 2}, .outputs = {33}});
    program.backward({1, 2});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].severity == severity);
  CHECK(fact_of<bool>(program.findings[0], "written_each_step") ==
        (severity == Severity::kWarning));
}

TEST_CASE("module-plain-tensor tells a statistic from a state", "[check]") {
  Program program("module-plain-tensor");
  program.attach(1, kNet);
  program.optimizer(1, {1, 2});
  constant(program, 9);
  const bool is_copy = GENERATE(false, true);
  const std::string write = is_copy ? "aten::copy_" : "aten::add_";
  for (int i = 0; i < 2; ++i) {
    if (!is_copy) program.op({.name = "aten::mul_", .inputs = {9}, .outputs = {9}});
    program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
    program.op({.name = write, .inputs = {9, 31}, .outputs = {9}, .grad_mode = false});
    program.op({.name = "aten::sub", .inputs = {31, 9}, .outputs = {32}});
    program.op({.name = "aten::mm", .inputs = {32, 2}, .outputs = {33}});
    program.backward({1, 2});
    program.step(1);
  }
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].op == "aten::sub");
  CHECK(program.findings[0].severity == (is_copy ? Severity::kNote : Severity::kWarning));
}

TEST_CASE("module-plain-tensor warns of a buffer that requires grad", "[check]") {
  Program program("module-plain-tensor");
  std::vector<Registered> net = kNet;
  net.push_back({.id = 3, .path = "token", .is_buffer = true});
  program.attach(1, net);
  const bool is_owned = GENERATE(false, true);
  program.optimizer(1, is_owned ? std::vector<TensorId>{1, 2, 3} : std::vector<TensorId>{1, 2});
  for (int i = 0; i < 3; ++i) {
    program.backward({1, 2, 3});
    program.step(1);
  }
  REQUIRE(program.findings.size() == (is_owned ? 0U : 1U));
  if (is_owned) return;
  CHECK(program.findings[0].subject == "token");
  CHECK(fact_of<bool>(program.findings[0], "buffer_requires_grad"));
}

TEST_CASE("module-plain-tensor takes an input of a linear layer for none", "[check]") {
  Program program("module-plain-tensor");
  program.optimizer(1, {1, 2});
  program.attach(1, kNet);
  constant(program, 30);
  for (int i = 0; i < 4; ++i) {
    transpose(program, 1, 41);
    program.op({.name = "aten::addmm", .inputs = {30, 41}, .outputs = {31}});
    program.op({.name = "aten::mm", .inputs = {31, 2}, .outputs = {32}});
    program.backward({1, 2});
    program.step(1);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("module-plain-tensor stays silent", "[check]") {
  Program program("module-plain-tensor");
  program.optimizer(1, {1, 2});
  SECTION("on an input that every step reads, also in a later layer") {
    program.attach(1, kNet);
    constant(program, 30);
    train(program, 30, 4);
  }
  SECTION("on an input that meets what is computed from a buffer") {
    std::vector<Registered> net = kNet;
    net.push_back({.id = 3, .path = "places", .requires_grad = false, .is_buffer = true});
    program.attach(1, net);
    constant(program, 9);
    for (int i = 0; i < 4; ++i) {
      program.op({.name = "aten::slice", .inputs = {3}, .outputs = {40}});
      program.op({.name = "aten::add", .inputs = {9, 40}, .outputs = {30}});
      program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
      program.backward({1, 2});
      program.step(1);
    }
  }
  SECTION("on a target that meets the output") {
    program.attach(1, kNet);
    constant(program, 9);
    for (int i = 0; i < 4; ++i) {
      program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}});
      program.op({.name = "aten::broadcast_tensors", .inputs = {31, 9}, .outputs = {31, 9}});
      program.op({.name = "aten::mse_loss", .inputs = {31, 9}, .outputs = {32}});
      program.op({.name = "aten::mm", .inputs = {31, 2}, .outputs = {36}});
      program.op({.name = "aten::mm", .inputs = {30, 2}, .outputs = {33}});
      program.op({.name = "aten::mse_loss", .inputs = {33, 9}, .outputs = {34}});
      program.op({.name = "aten::add", .inputs = {32, 34}, .outputs = {35}});
      program.backward({1, 2});
      program.step(1);
    }
  }
  SECTION("on masks and states that are new in each step") {
    program.attach(1, kNet);
    for (TensorId id = 40; id < 44; ++id) {
      constant(program, id);
      train(program, id, 1);
    }
  }
  SECTION("on tensors without a floating type") {
    program.attach(1, kNet);
    constant(program, 9, "cpu", {3}, /*floating=*/false);
    train(program, 9, 4);
  }
  SECTION("on registered buffers") {
    std::vector<Registered> net = kNet;
    net.push_back({.id = 9, .path = "scale", .requires_grad = false, .is_buffer = true});
    program.attach(1, net);
    train(program, 9, 4);
  }
  SECTION("on evaluations") {
    program.attach(1, kNet);
    constant(program, 9);
    for (int i = 0; i < 4; ++i) {
      program.op({.name = "aten::mm", .inputs = {30, 1}, .outputs = {31}, .grad_mode = false});
      program.op({.name = "aten::mul", .inputs = {31, 9}, .outputs = {32}, .grad_mode = false});
      program.op({.name = "aten::mm", .inputs = {32, 2}, .outputs = {33}, .grad_mode = false});
      program.backward({1, 2});
      program.step(1);
    }
  }
  SECTION("without an attached module") {
    program.leaf(1);
    constant(program, 9);
    train(program, 9, 4);
  }
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_plain_tensor_test
