// Programs with one fault each: it is found, at its place, and nothing else is.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::nn::Sequential;
using torch::optim::SGD;

// `stages` are forwarded and registered nowhere; their module lies inside another one.
struct StagesImpl : Module {
  at::Tensor forward(at::Tensor x) {
    x = before(x).relu();
    for (Linear& stage : stages) x = stage(x).relu();
    return after(x);
  }
  Linear before = register_module("before", Linear(8, 8));
  std::vector<Linear> stages = {Linear(8, 8), Linear(8, 8), Linear(8, 8)};
  Linear after = register_module("after", Linear(8, 8));
};
TORCH_MODULE(Stages);

struct Outer : Module {
  at::Tensor loss() { return head(middle(stem(input())).relu()).square().mean(); }
  Linear stem = register_module("stem", Linear(8, 8));
  Stages middle = register_module("middle", Stages());
  Linear head = register_module("head", Linear(8, 2));
};

Sequential two_layers() { return Sequential(Linear(8, 16), torch::nn::ReLU(), Linear(16, 4)); }
Sequential copy_of(const Sequential& net) {
  return {std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone())};
}
at::Tensor loss_of(Sequential net) { return net->forward(input()).square().mean(); }
}  // namespace

TEST_CASE("A vector of layers in a nested module is found there") {
  Outer net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  check_findings({"module-unregistered error middle - - aten::addmm"});
  const auto all = findings();
  const Finding* found = find(all, "module-unregistered");
  REQUIRE(found != nullptr);
  CHECK(std::get<std::int64_t>(found->facts.at("tensors_count")) == 6);
  CHECK(std::get<std::int64_t>(found->facts.at("elements")) == 3 * (64 + 8));
  CHECK(text_fact(*found, "module_type") == "torch::nn::LinearImpl");
}

TEST_CASE("A plain tensor member is found in its module") {
  struct Scaled : Module {
    at::Tensor loss() { return (layer(input()) * scale).square().mean(); }
    Linear layer = register_module("layer", Linear(8, 8));
    at::Tensor scale = torch::ones({8}, torch::requires_grad());
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  const auto all = findings();
  const Finding* found = find(all, "module-unregistered");
  REQUIRE(found != nullptr);
  CHECK(found->subject == "tensor [8]");
  CHECK(found->op == "aten::mul");
  CHECK(flush().errors == 1);
  CHECK(flush().warnings == 0);
}

TEST_CASE("A class that registers nothing explains the empty optimizer") {
  struct Forgetful : Module {
    at::Tensor loss() { return second(first(input()).relu()).square().mean(); }
    Linear first{8, 8};
    Linear second{8, 2};
  } net;
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net.parameters());
  train(optimizer, [&] { return net.loss(); });
  check_findings({"module-unregistered error - - - aten::addmm", "optim-empty error - Adam - -"});
  const auto all = findings();
  const Finding* primary = find(all, "module-unregistered");
  const Finding* folded = find(all, "optim-empty");
  REQUIRE(primary != nullptr);
  REQUIRE(folded != nullptr);
  CHECK(!primary->caused_by.has_value());
  CHECK(folded->caused_by == primary->fingerprint);
}

TEST_CASE("A block that clones the layers it was given is told where nobody registers it") {
  struct Translator : Module {
    at::Tensor loss() { return head(encoder(input().unsqueeze(1))).square().mean(); }
    torch::nn::TransformerEncoder encoder{
        torch::nn::TransformerEncoderLayer(
            torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(8).dropout(0)),
        2};
    Linear head{8, 2};
  } net;
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net.parameters());
  train(optimizer, [&] { return net.loss(); });
  const auto all = findings();
  const Finding* primary = find(all, "module-unregistered");
  REQUIRE(primary != nullptr);
  CHECK(primary->severity == "error");
  CHECK(primary->model.find("Translator") != std::string::npos);
  CHECK(find(all, "optim-empty")->caused_by == primary->fingerprint);
}

TEST_CASE("A vector as input is no write of the weight") {
  Linear first(4, 8);
  Linear second(8, 1);
  torch::nn::Sequential net(first, second);
  attach_diagnostics(net, quiet());
  SGD optimizer(first->parameters(), 0.1);
  CHECK(net->parameters().size() == 4);
  train(optimizer, [&] { return net->forward(torch::randn({4})).sum(); });
  check_findings({"optim-missing-parameter error 1 - group_omits -"});
}

TEST_CASE("A replaced layer is missing in the optimizer") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  net->side = net->replace_module("side", Linear(8, 4));
  train(optimizer, [&] { return net->main_loss() + net->side(input()).square().mean(); });
  check_findings({"module-replaced error side - re_registered -",
                  "optim-foreign-parameter error - SGD stale_copy -",
                  "optim-missing-parameter error side - built_before -"});
}

TEST_CASE("A layer that is replaced in the middle of the run is missing in the optimizer") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  const auto loss = [&] { return net->main_loss() + net->side(input()).square().mean(); };
  train(optimizer, loss);
  net->side = net->replace_module("side", Linear(8, 4));
  train(optimizer, loss);
  check_findings({"module-replaced error side - re_registered -",
                  "optim-foreign-parameter error - SGD stale_copy -",
                  "optim-missing-parameter error side - built_before -"});
}

TEST_CASE("A list that omits a bias misses it in the optimizer") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD optimizer({net->body->weight, net->body->bias, net->side->weight}, 0.01);
  train(optimizer, [&] { return net->main_loss() + net->side(input()).square().mean(); });
  check_findings({"optim-missing-parameter error side bias group_omits -"});
}

TEST_CASE("An optimizer over frozen parameters only is empty") {
  Side net;
  for (at::Tensor& parameter : net->side->parameters()) parameter.requires_grad_(false);
  attach_diagnostics(net, quiet());
  SGD for_body(net->body->parameters(), 0.01);
  torch::optim::Adam for_side(net->side->parameters());
  for (int i = 0; i < 8; ++i) {
    for_body.zero_grad();
    (net->main_loss() + net->side(input()).square().mean()).backward();
    for_body.step();
    for_side.step();
  }
  check_findings({"optim-empty error - Adam - -"});
}

TEST_CASE("An optimizer whose list is emptied after its construction is empty") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.1);
  optimizer.param_groups()[0].params().clear();
  train(optimizer, [&] { return net->loss(); });
  for (const char* id : {"optim-empty", "optim-missing-parameter"}) {
    CHECK(find(findings(), id) != nullptr);
  }
}

TEST_CASE("Gradients that nobody clears are stale") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    net->loss().backward();
    optimizer.step();
  }
  check_findings({"optim-stale-gradient error - - never_zeroed -"});
}

TEST_CASE("Gradients of the optimizer that is not cleared are stale") {
  Side net;
  attach_diagnostics(net, quiet());
  SGD for_body(net->body->parameters(), 0.01);
  SGD for_side(net->side->parameters(), 0.01);
  for (int i = 0; i < 8; ++i) {
    for_body.zero_grad();
    (net->main_loss() + net->side(input()).square().mean()).backward();
    for_body.step();
    for_side.step();
  }
  check_findings({"optim-stale-gradient warning side - outside_optimizer -"});
}

TEST_CASE("A weight that is assigned in mid-training is found within a few steps") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, 9);
  net->first->weight = net->first->weight.detach().clone().requires_grad_();
  train(
      optimizer, [&] { return net->loss(); }, 9);
  const auto all = findings();
  const Finding* found = find(all, "module-replaced");
  REQUIRE(found != nullptr);
  CHECK(found->module_path == "first");
}

TEST_CASE("An optimizer of the model that was cloned explains why that one has no gradient") {
  Sequential net = two_layers();
  Sequential copy = copy_of(net);
  attach_diagnostics(net, quiet());
  attach_diagnostics(copy, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    copy->zero_grad();
    return loss_of(copy);
  });
  const auto all = findings();
  const Finding* found = find(all, "optim-missing-parameter");
  const Finding* follows = find(all, "grad-missing");
  REQUIRE((found != nullptr && follows != nullptr));
  CHECK(found->why.starts_with("SGD holds as many parameters of the same shapes"));
  CHECK(follows->caused_by == found->fingerprint);
}

TEST_CASE("A clone that trains in place of the attached model is told as that") {
  Sequential net = two_layers();
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  Sequential copy = copy_of(net);
  train(optimizer, [&] { return loss_of(copy); });
  const auto all = findings();
  const Finding* found = find(all, "module-replaced");
  REQUIRE(found != nullptr);
  CHECK(found->why.starts_with("these are all that the model trains"));
}

TEST_CASE("A parameter that the optimizer holds twice is found") {
  struct Twice : Module {
    at::Tensor loss() { return second(first(input())).square().mean(); }
    Linear first = register_module("first", Linear(8, 8));
    Linear second = register_module("second", first);
  } net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
  REQUIRE(!findings().empty());
  for (const Finding& finding : findings()) {
    if (finding.severity == "note") continue;
    CHECK(finding.id == "module-shared-twice");
    CHECK(finding.severity == "error");
  }
  CHECK(flush().errors > 0);
}

TEST_CASE("A forward that serves two steps is told to run again") {
  Sequential net = two_layers();
  attach_diagnostics(net, quiet());
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  const at::Tensor output = net->forward(input());
  const auto step = [&] {
    optimizer.zero_grad();
    output.square().mean().backward({}, /*retain_graph=*/true);
    optimizer.step();
  };
  step();
  CHECK_THROWS_AS(step(), c10::Error);
  findings();  // they are written by then
  const auto told = records("finding");
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("fixes\":[{\"text\":\"run the forward again after step()\"") != told[0].npos);
  expect_at_exit({"autograd-inplace-saved error 2 weight - aten::addmm"});
}

}  // namespace ddpscope::test
