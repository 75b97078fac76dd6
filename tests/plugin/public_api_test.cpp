// What the calls of the public header promise.
#include <algorithm>
#include <filesystem>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::optim::SGD;

struct Loose : torch::nn::Module {
  at::Tensor loss() { return (body(torch::randn({5, 8})) * scale).square().mean(); }
  Linear body = register_module("body", Linear(8, 8));
  at::Tensor scale = torch::ones({8}, torch::requires_grad());
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <class Attach>
std::string refused(Attach&& attach) {
  try {
    attach();
  } catch (const SettingsError& error) {
    return error.what();
  }
  return "";
}
}  // namespace

TEST_CASE("A wrong key of the variable names it and the nearest one") {
  setenv("DDPSCOPE", "repot_dir=x", 1);
  Net net;
  const std::string text = refused([&] { attach_diagnostics(net, quiet()); });
  CHECK(says(text, "repot_dir"));
  CHECK(says(text, "report_dir"));
  CHECK_FALSE(says(text, "\n"));
}

TEST_CASE("A wrong value of an option names the key and what is allowed") {
  Net net;
  Options options = quiet();
  options.level = "everything";
  const std::string text = refused([&] { attach_diagnostics(net, options); });
  CHECK(says(text, "level"));
  CHECK(says(text, "everything"));
  for (const char* allowed : {"watch", "values", "stacks"}) CHECK(says(text, allowed));
}

TEST_CASE("A wrong option of a check names it and the nearest one") {
  Net net;
  Options options = quiet();
  options.check_options["grad-mising.cycles"] = "3";
  CHECK(says(refused([&] { attach_diagnostics(net, options); }), "grad-missing"));
  options.check_options = {{"loss-target-range.strict", "perhaps"}};
  CHECK(refused([&] { attach_diagnostics(net, options); }) ==
        R"(loss-target-range.strict="perhaps" is not 0 or 1)");
  options.check_options = {{"device-duplicate.shard", "1"}};
  CHECK(says(refused([&] { attach_diagnostics(net, options); }), "device-duplicate.shared"));
}

TEST_CASE("After a wrong setting the right one starts") {
  Net net;
  Options wrong = quiet();
  wrong.console = "loud";
  CHECK(!refused([&] { attach_diagnostics(net, wrong); }).empty());
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("Empty models are refused") {
  CHECK(!refused([] { attach_diagnostics(Net(nullptr), quiet()); }).empty());
  CHECK(!refused([] { attach_diagnostics(std::shared_ptr<NetImpl>(), quiet()); }).empty());
  const NamedTensors undefined = {{"weight", at::Tensor()}};
  CHECK(says(refused([&] { attach_diagnostics(undefined, quiet()); }), "weight"));
  CHECK(!std::filesystem::exists(report_dir() + "/rank-0.jsonl"));
}

TEST_CASE("The off switch wins over options") {
  setenv("DDPSCOPE", "0", 1);
  Loose net;
  attach_diagnostics(net, quiet()).name("net").detach();
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  step();
  CHECK(findings().empty());
  CHECK(flush().files.empty());
  CHECK(!std::filesystem::exists(report_dir() + "/rank-0.jsonl"));
  Options wrong = quiet();
  wrong.overhead = -1;
  CHECK(refused([&] { attach_diagnostics(net, wrong); }).empty());
}

TEST_CASE("Activation by environment stays dormant without the variable") {
  unsetenv("DDPSCOPE");
  const std::string dir = report_dir() + "/never";
  Loose net;
  attach_diagnostics(net, {.report_dir = dir, .activation = Activation::kEnvironment});
  attach_diagnostics(net, {.overhead = -1, .activation = Activation::kEnvironment});  // not read
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  CHECK(findings().empty());
  CHECK(!std::filesystem::exists(dir));
}

TEST_CASE("Activation by environment starts with the variable") {
  setenv("DDPSCOPE", "1", 1);
  Loose net;
  Options options = quiet();
  options.activation = Activation::kEnvironment;
  attach_diagnostics(net, options);
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  CHECK(flush().errors == 1);
}

TEST_CASE("The variable wins over options and the run record says so") {
  setenv("DDPSCOPE", "history=128", 1);
  Net net;
  Options options = quiet();
  options.history = 64;
  attach_diagnostics(net, options);
  flush();
  REQUIRE(records("run").size() == 1);
  const std::string run = records("run")[0];
  CHECK(says(run, R"("history":{"value":"128","source":"environment"})"));
  CHECK(says(run, R"("exit_code":{"value":"0","source":"default"})"));
}

TEST_CASE("A model carries the name it was given") {
  Loose net;
  attach_diagnostics(net, quiet()).name("student");
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  REQUIRE(!findings().empty());
  CHECK(findings()[0].model == "student");
}

TEST_CASE("Two models of one class are told apart") {
  Loose one;
  Loose two;
  attach_diagnostics(one, quiet());
  attach_diagnostics(two, quiet());
  flush();
  const auto models = records("model");
  REQUIRE(models.size() == 2);
  CHECK(says(models[1], "Loose#2\""));
}

TEST_CASE("What is declared external is no fault") {
  Loose net;
  attach_diagnostics(net, quiet()).declare("*", Declaration::kExternal);
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_silent();
}

TEST_CASE("A watched optimizer is called by its name") {
  Net net;
  Attachment attachment = attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  attachment.watch(optimizer, "warm up");
  for (int i = 0; i < 8; ++i) {
    net->loss().backward();
    optimizer.step();
  }
  REQUIRE(!findings().empty());
  CHECK(findings()[0].id == "optim-stale-gradient");
  CHECK(says(findings()[0].why, "warm up"));
}

TEST_CASE("Detaching is idempotent and works after the model died") {
  auto net = std::make_unique<NetImpl>();
  Attachment attachment = attach_diagnostics(*net, quiet());
  Attachment copy = attachment;
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] { return net->loss(); });
  net.reset();
  attachment.detach();
  attachment.detach();
  copy.detach();
  copy.name("gone").declare("*", Declaration::kIntended);
  check_silent();
}

TEST_CASE("Faults of a detached model are not told") {
  Loose net;
  Attachment attachment = attach_diagnostics(net, quiet());
  attachment.detach();
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_findings({});
}

TEST_CASE("Step markers count as steps") {
  Net net;
  attach_diagnostics(net, quiet());
  for (int i = 0; i < 6; ++i) {
    net->zero_grad();
    net->loss().backward();
    net->loss().backward();
    {
      const torch::NoGradGuard guard;
      for (at::Tensor& parameter : net->parameters()) parameter.sub_(parameter.grad() * 0.01);
    }
    step();
  }
  flush();
  const auto steps = records("step");
  REQUIRE(!steps.empty());
  // The two backwards before the first marker counted as steps of their own.
  CHECK(says(steps.back(), R"("step":7,)"));
}

TEST_CASE("A scope names the module of operators without a builtin forward") {
  struct Outer : torch::nn::Module {
    at::Tensor loss() {
      at::Tensor x = torch::randn({5, 8}) * before;
      {
        const Scope scope("middle");
        x = x * loose;
      }
      return (x * after).square().mean();
    }
    at::Tensor before = register_parameter("before", torch::ones({8}));
    at::Tensor after = register_parameter("after", torch::ones({8}));
    at::Tensor loose = torch::ones({8}, torch::requires_grad());
    Linear middle = register_module("middle", Linear(8, 8));
  } net;
  for (at::Tensor& parameter : net.middle->parameters()) parameter.requires_grad_(false);
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_findings({"module-unregistered error middle tensor [8] - aten::mul"});
}

TEST_CASE("Halting at errors throws at the entry of a step") {
  Loose net;
  Options options = quiet();
  options.halt_on = "error";
  attach_diagnostics(net, options);
  SGD optimizer(net.parameters(), 0.01);
  std::string said;
  try {
    for (int i = 0; i < 50; ++i) {
      train(
          optimizer, [&] { return net.loss(); }, 1);
      flush();
    }
  } catch (const HaltError& error) {
    said = error.what();
  }
  CHECK(says(said, "module-unregistered"));
}

TEST_CASE("The C entry points attach and step and count") {
  at::Tensor first = torch::ones({8, 8}).requires_grad_();
  at::Tensor second = torch::ones({8}).requires_grad_();
  setenv("DDPSCOPE", ("console=quiet:report_dir=" + report_dir()).c_str(), 1);
  const char* const names[] = {"a.weight", "b"};
  const void* const tensors[] = {&first, &second};
  CHECK(ddpscope_attach_tensors(names, tensors, 2) == 0);
  at::Tensor loose = torch::ones({8}).requires_grad_();
  for (int i = 0; i < 6; ++i) {
    (torch::randn({5, 8}).matmul(first) * second * loose).square().mean().backward();
    ddpscope_step();
  }
  CHECK(ddpscope_flush() == 1);
  CHECK(std::string(ddpscope_version()) == version());
  const at::Tensor undefined;
  const void* const wrong[] = {&first, &undefined};
  CHECK(ddpscope_attach_tensors(names, wrong, 2) == 1);
}

}  // namespace ddpscope::test
