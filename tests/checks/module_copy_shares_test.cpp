#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::module_copy_shares_test {
namespace {
std::vector<Registered> net(TensorId first, int count) {
  std::vector<Registered> tensors;
  for (int i = 0; i < count; ++i) {
    tensors.push_back({.id = first + static_cast<TensorId>(i), .path = "w" + std::to_string(i)});
  }
  return tensors;
}

void use(Program& program, TensorId parameter, bool grad_mode) {
  program.op({.name = "aten::mm",
              .inputs = {30, parameter},
              .outputs = {grad_mode ? TensorId{31} : TensorId{32}},
              .grad_mode = grad_mode});
}

/// A loss between what `online` and, without grad mode, `target` gives.
void train(Program& program, TensorId online, TensorId target, int steps, bool apart = true) {
  for (int i = 0; i < steps; ++i) {
    use(program, online, true);
    if (apart) use(program, target, false);
    program.backward({online});
    program.step(1);
  }
}

/// An operator without grad mode that writes the first of its inputs.
void write(Program& program, const std::string& op, const std::vector<TensorId>& inputs) {
  program.op({.name = op, .inputs = inputs, .outputs = {inputs.front()}, .grad_mode = false});
}

void copy(Program& program, TensorId to, TensorId from) {
  write(program, "aten::copy_", {to, from});
}

void named(Program& program, const std::string& label, ModelId model = 1) {
  auto tree = std::make_unique<TreeEvent>();
  tree->at = program.now();
  tree->model = model;
  tree->label = label;
  tree->class_name = "Net";
  tree->attached = true;
  tree->modules = {{.id = 1000}};
  tree->tensors = {{.name = "w", .tensor = {.id = 1, .requires_grad = true, .floating = true}}};
  program.send(std::move(tree));
}

/// Two models of one parameter each, 42 and 43 or one of both, of which the second's lies in
/// `storage`.
void attach_in_memory(Program& program, std::uint64_t storage, bool as_one = false) {
  for (const ModelId model : {3, 4}) {
    const TensorId parameter = as_one ? 42 : 39 + model;
    auto tree = std::make_unique<TreeEvent>();
    tree->at = program.now();
    tree->model = model;
    tree->label = model == 3 ? "online" : "target";
    tree->modules = {{.id = 900 + model}};
    tree->tensors = {
        {.name = "w", .tensor = {.id = parameter, .elements = 4, .requires_grad = true}}};
    tree->tensors[0].tensor.storage = model == 3 ? 7 : storage;
    program.send(std::move(tree));
  }
}

/// Writes the second one from the first, as it lies in `storage` now.
void average_into(Program& program, std::uint64_t storage) {
  auto event = std::make_unique<OpEvent>();
  event->at = program.now();
  event->op = "aten::lerp_";
  event->grad_mode = false;
  event->inputs = {43, 42};
  event->outputs = {{.id = 43, .elements = 4, .storage = storage, .requires_grad = true}};
  program.send(std::move(event));
}
}  // namespace

TEST_CASE("module-copy-shares tells a target network that is the online one", "[check]") {
  Program program("module-copy-shares");
  program.attach(1, net(1, 10));
  program.attach(2, net(1, 10));
  program.optimizer(1, {1});
  train(program, 1, 2, 1);
  CHECK(program.findings.empty());
  train(program, 1, 1, 1);
  CHECK(program.findings.empty());
  train(program, 1, 1, 1);
  REQUIRE(program.findings.size() == 1);
  const Finding& finding = program.findings[0];
  CHECK(finding.severity == Severity::kWarning);
  CHECK(finding.model == "net2");
  CHECK(finding.what == "shares 10 of 10 parameters with net");
  CHECK(finding.why.find("with and without grad mode in each cycle") != std::string::npos);
  CHECK(fact_of<std::string>(finding, "root_a") == "net");
  CHECK(fact_of<std::string>(finding, "root_b") == "net2");
  CHECK(fact_of<std::int64_t>(finding, "shared_count") == 10);
  CHECK(fact_of<std::int64_t>(finding, "total_count") == 10);
}

TEST_CASE("module-copy-shares tells a parameter that is copied onto itself at once", "[check]") {
  Program program("module-copy-shares");
  program.attach(1, net(1, 10));
  program.attach(2, net(1, 10));
  program.optimizer(1, {1});
  copy(program, 1, 1);
  train(program, 1, 1, 3, /*apart=*/false);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.find("wrote parameters onto themselves") != std::string::npos);
}

TEST_CASE("module-copy-shares tells an average that is taken of the parameter itself", "[check]") {
  Program program("module-copy-shares");
  program.attach(1, net(1, 10));
  program.attach(2, net(1, 10));
  program.optimizer(1, {1});
  std::string by;
  SECTION("by lerp_") {
    by = "lerp_";
    write(program, "aten::lerp_", {1, 1});
  }
  SECTION("by mul_ and add_") {
    by = "add_";
    write(program, "aten::mul_", {1});
    write(program, "aten::add_", {1, 1});
  }
  SECTION("by operators on lists") {
    by = "add_";
    write(program, "aten::_foreach_mul_", {1, 2});
    write(program, "aten::_foreach_add_", {1, 2, 1, 2});
  }
  SECTION("by what data() returns") {
    by = "copy_";
    program.leaf_in_storage(40, 4, 0);
    program.leaf_in_storage(41, 4, 0);
    attach_in_memory(program, 7, /*as_one=*/true);
    write(program, "aten::copy_", {40, 41});
  }
  train(program, 1, 1, 1, /*apart=*/false);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].why.find(by + " from one to the other wrote parameters onto") !=
        std::string::npos);
}

TEST_CASE("module-copy-shares tells parameters that set_data() put into shared memory", "[check]") {
  Program program("module-copy-shares");
  const bool shares = GENERATE(true, false);
  const std::uint64_t storage = shares ? 7 : 8;
  attach_in_memory(program, storage);
  program.optimizer(1, {42});
  for (int i = 0; i < 4; ++i) {
    program.backward({42});
    program.step(1);
    if (i > 0) CHECK(program.findings.size() == (shares && i > 1 ? 1U : 0U));
    average_into(program, storage);
  }
  if (!shares) return;
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].what == "shares 1 of 1 parameter with online");
  CHECK(program.findings[0].why.starts_with("set_data() of another tensor shares its memory"));
  CHECK(program.findings[0].model == "target");
}

TEST_CASE("module-copy-shares outlives a model that ends after such a write", "[check]") {
  Program program("module-copy-shares");
  const ModelId ended = GENERATE(ModelId{3}, ModelId{4});
  attach_in_memory(program, 7);
  program.optimizer(1, {42});
  program.backward({42});
  program.step(1);
  average_into(program, 7);
  program.detach(ended);
  program.backward({42});
  program.step(1);
  CHECK(program.findings.empty());
}

TEST_CASE("module-copy-shares tells one module that was given two names", "[check]") {
  Program program("module-copy-shares");
  named(program, "Net");
  named(program, "online");
  named(program, "Net#2");
  named(program, "target");
  program.optimizer(1, {1});
  train(program, 1, 1, 2);
  REQUIRE(program.findings.size() == 1);
  CHECK(program.findings[0].model == "target");
  CHECK(program.findings[0].what == "shares 1 of 1 parameter with online");
}

TEST_CASE("module-copy-shares tells one module that was attached twice without a name", "[check]") {
  Program program("module-copy-shares");
  const bool at_once = GENERATE(true, false);
  named(program, "Net");
  program.optimizer(1, {1});
  if (!at_once) train(program, 1, 1, 1, /*apart=*/false);
  named(program, "Net");
  train(program, 1, 1, 3);
  REQUIRE(program.findings.size() == (at_once ? 1U : 0U));
  if (!at_once) return;
  CHECK(program.findings[0].severity == Severity::kNote);  // it may be evaluated
  CHECK(program.findings[0].what == "shares 1 of 1 parameter with the Net attached before it");
  copy(program, 1, 1);
  train(program, 1, 1, 2);
  REQUIRE(program.findings.size() == 2);
  CHECK(program.findings[1].severity == Severity::kWarning);
}

TEST_CASE("module-copy-shares stays silent", "[check]") {
  Program program("module-copy-shares");
  program.optimizer(1, {1});
  program.attach(1, net(1, 10));
  SECTION("on a shared part below 90 percent") {
    program.attach(2, net(3, 10));
    train(program, 5, 5, 4);
  }
  SECTION("on a part of a larger model") {
    program.attach(2, net(1, 8));
    train(program, 5, 5, 4);
  }
  SECTION("on two that are trained together") {
    program.attach(2, net(1, 10));
    train(program, 1, 1, 4, /*apart=*/false);
  }
  SECTION("on one model, whatever grad mode it runs in") {
    train(program, 1, 1, 4);
    copy(program, 1, 1);
    train(program, 1, 1, 1);
  }
  SECTION("on a copy that holds its own parameters") {
    program.attach(2, net(21, 10));
    for (int i = 0; i < 4; ++i) {
      copy(program, 21, 1);
      write(program, "aten::mul_", {21});
      write(program, "aten::add_", {21, 1});
      write(program, "aten::lerp_", {21, 1});
      train(program, 1, 21, 1);
    }
  }
  SECTION("on decay and growth of parameters by themselves") {
    program.attach(2, net(1, 10));
    for (int i = 0; i < 4; ++i) {
      write(program, "aten::mul_", {1});
      write(program, "aten::mul_", {1, 1});
      write(program, "aten::add_", {2, 2});
      train(program, 1, 1, 1, /*apart=*/false);
    }
  }
  SECTION("on reads and writes without grad mode that are no forward") {
    program.attach(2, net(1, 10));
    for (int i = 0; i < 4; ++i) {
      program.op({.name = "aten::norm", .inputs = {1}, .outputs = {40}, .grad_mode = false});
      program.op({.name = "aten::add_", .inputs = {1, 40}, .outputs = {1}, .grad_mode = false});
      train(program, 1, 1, 1, /*apart=*/false);
    }
  }
  SECTION("on one that stands in the other") {
    auto tree = std::make_unique<TreeEvent>();
    tree->at = program.now();
    tree->model = 3;
    tree->label = "wrapper";
    tree->class_name = "Wrapper";
    tree->modules = {{.id = 70}, {.id = 1000, .path = "inner"}};
    for (TensorId id = 1; id <= 10; ++id) {
      tree->tensors.push_back({.module_path = "inner",
                               .name = "w" + std::to_string(id),
                               .tensor = {.id = id, .requires_grad = true, .floating = true}});
    }
    program.send(std::move(tree));
    train(program, 1, 1, 4);
  }
  SECTION("on one that is attached twice under one name") {
    program.detach(1);
    named(program, "online", 5);
    named(program, "online", 5);
    train(program, 1, 1, 4);
  }
  CHECK(program.findings.empty());
}

TEST_CASE("module-copy-shares counts anew after lost events", "[check]") {
  Program program("module-copy-shares");
  program.attach(1, net(1, 2));
  program.attach(2, net(1, 2));
  program.optimizer(1, {1});
  train(program, 1, 1, 1);
  program.drop_events();
  train(program, 1, 1, 1);
  CHECK(program.findings.empty());
}

}  // namespace ddpscope::test::module_copy_shares_test
