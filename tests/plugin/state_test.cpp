// Programs that lose, replace or load state: each fault is found, its correct twin is silent.
#include <dlfcn.h>

#include <sstream>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Embedding;
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;
using torch::optim::SGDOptions;

struct Heads : Module {
  at::Tensor loss(bool first) {
    const at::Tensor x = body(input());
    return (first ? head_a(x) : head_b(x)).square().mean();
  }
  Linear body = register_module("body", Linear(8, 8));
  Linear head_a = register_module("head_a", Linear(8, 4));
  Linear head_b = register_module("head_b", Linear(8, 4));
};

// Trains the heads in turn.
void check_heads(const SGDOptions& options, bool set_to_none, std::vector<std::string> expected) {
  Heads net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), options);
  for (int i = 0; i < 16; ++i) {
    optimizer.zero_grad(set_to_none);
    net.loss(i % 2 == 0).backward();
    optimizer.step();
  }
  check_findings(std::move(expected));
}

struct ClassifierImpl : Module {
  explicit ClassifierImpl(int classes) : head(register_module("head", Linear(8, classes))) {}
  at::Tensor loss() { return head(body(input()).relu()).square().mean(); }
  Linear body = register_module("body", Linear(8, 8));
  Linear head;
};
TORCH_MODULE(Classifier);

template <class Value>
std::stringstream saved(const Value& value) {
  std::stringstream file;
  torch::save(value, file);
  return file;
}

template <class Model>
void train_some(Model& net) {
  SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return net.loss(); });
}

struct LanguageModel : Module {
  at::Tensor loss() {
    return decoder(embed(torch::randint(16, {5}))).square().mean() + embed->weight.sum() * 0.1;
  }
  Embedding embed = register_module("embed", Embedding(16, 8));
  Linear decoder = register_module("decoder", Linear(torch::nn::LinearOptions(8, 16).bias(false)));
};

struct NormedBody : Module {
  at::Tensor loss() { return norm(layer(input())).square().mean(); }
  Linear layer = register_module("layer", Linear(8, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
};

struct Centered : Module {
  explicit Centered(bool rebinds) : rebinds(rebinds) {}
  at::Tensor loss() {
    const at::Tensor x = layer(input());
    {
      const torch::NoGradGuard guard;
      if (rebinds) {
        center = center * 0.9 + x.mean(0) * 0.1;
      } else {
        center.mul_(0.9).add_(x.mean(0), 0.1);
      }
    }
    return (x - center + offset).square().mean();
  }
  bool rebinds;
  Linear layer = register_module("layer", Linear(8, 8));
  at::Tensor center = register_buffer("center", torch::zeros({8}));
  at::Tensor offset = register_buffer("offset", torch::ones({8}));
};
}  // namespace

TEST_CASE("Idle heads that decay on zeroed gradients are found") {
  check_heads(SGDOptions(0.01).momentum(0.9).weight_decay(0.01), /*set_to_none=*/false,
              {"grad-zero-instead-of-none warning head_a - zero_filled -",
               "grad-zero-instead-of-none warning head_b - zero_filled -"});
}

TEST_CASE("A head times zero that decays is found") {
  Heads net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), SGDOptions(0.01).weight_decay(0.01));
  train(optimizer, [&] { return net.loss(true) + 0 * net.head_b(input()).sum(); });
  check_findings({"grad-zero-instead-of-none warning head_b - times_zero -"});
}

TEST_CASE("Idle heads without gradients are silent") {
  check_heads(SGDOptions(0.01).momentum(0.9).weight_decay(0.01), /*set_to_none=*/true, {});
}

TEST_CASE("Zeroed gradients without decay and momentum are silent") {
  check_heads(SGDOptions(0.01), /*set_to_none=*/false, {});
}

TEST_CASE("The momentum tail of the step after a use is silent") {
  check_heads(SGDOptions(0.01).momentum(0.9), /*set_to_none=*/false, {});
}

TEST_CASE("True zero gradients of a used layer are silent") {
  Classifier net(4);
  torch::nn::init::constant_(net->body->bias, -100);
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), SGDOptions(0.01).momentum(0.9).weight_decay(0.01));
  train(optimizer, [&] { return net->loss(); });
  check_silent();
}

TEST_CASE("A load that finds none of its names is found") {
  struct Wrapper : Module {
    Classifier inner = register_module("module", Classifier(4));
  };
  std::stringstream file = saved(std::make_shared<Wrapper>());
  Classifier net(4);
  attach_diagnostics(net, quiet());
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  for (auto& parameter : net->named_parameters()) {
    archive.try_read(parameter.key(), parameter.value());
  }
  train_some(*net);
  check_findings({"checkpoint-load warning - - unchanged -"});
}

TEST_CASE("Loads that change the classes of a head or the type of a bias are found") {
  Classifier held(4), net(10), other(4);
  std::stringstream file = saved(held);
  held->head->bias.set_data(torch::zeros(4, torch::kFloat64));
  std::stringstream wide = saved(held);
  for (Classifier loaded : {net, other}) attach_diagnostics(loaded, quiet());
  torch::load(net, file);
  torch::load(other, wide);
  for (Classifier loaded : {net, other}) train_some(*loaded);
  check_findings(
      {"checkpoint-load error head - reshaped -", "checkpoint-load error head bias reshaped -"});
}

TEST_CASE("A file that lacks unregistered layers is found") {
  struct Stages : Module {
    at::Tensor loss() { return last(stages[0](first(input())).relu()).square().mean(); }
    Linear first = register_module("first", Linear(8, 8));
    std::vector<Linear> stages = {Linear(8, 8)};
    Linear last = register_module("last", Linear(8, 2));
  };
  const auto net = std::make_shared<Stages>();
  attach_diagnostics(*net, quiet());
  train_some(*net);
  saved(net);
  train_some(*net);
  check_findings(
      {"checkpoint-load error - - incomplete -", "module-unregistered error - - - aten::addmm"});
}

TEST_CASE("A name that the file cannot give back is found") {
  struct Named : Module {
    at::Tensor loss() { return layer(input()).square().mean(); }
    Linear layer = register_module("in", Linear(8, 8));
  };
  const auto net = std::make_shared<Named>();
  attach_diagnostics(*net, quiet());
  train_some(*net);
  saved(net);
  train_some(*net);
  check_findings({"checkpoint-load error - - unreadable_name -"});  // all of the model is below it
}

TEST_CASE("Loads of a whole model and an optimizer and data are silent") {
  std::stringstream file = saved(Classifier(4));
  std::stringstream data = saved(torch::randn({5, 8}));
  Classifier net(4);
  attach_diagnostics(net, quiet());
  torch::load(net, file);
  SGD optimizer(net->parameters(), SGDOptions(0.01).momentum(0.9));
  train(optimizer, [&] { return net->loss(); });
  std::stringstream state = saved(optimizer);
  torch::load(optimizer, state);
  at::Tensor batch;
  torch::load(batch, data);
  train(optimizer, [&] { return net->head(net->body(batch)).square().mean(); });
  std::stringstream same = saved(net);
  torch::load(net, same);
  train(optimizer, [&] { return net->loss(); });
  check_silent();
  for (const Finding& finding : findings()) {
    if (finding.id == "checkpoint-load") CHECK(text_fact(finding, "cause") == "unchanged");
  }
}

TEST_CASE("A weight that is tied by assignment is found") {
  LanguageModel net;
  attach_diagnostics(net, quiet());
  net.decoder->weight = net.embed->weight;
  train_some(net);
  check_findings({"module-replaced error decoder weight tied_by_assignment -",
                  "grad-missing warning decoder weight not_used -"});
}

TEST_CASE("A weight that is assigned after registration is found") {
  NormedBody net;
  attach_diagnostics(net, quiet());
  net.norm->weight = torch::ones({8}, torch::requires_grad());
  train_some(net);
  check_findings({"module-replaced error norm weight member_reassigned -",
                  "grad-missing warning norm weight not_used -",
                  "module-unregistered error norm tensor [8] - aten::native_batch_norm"});
}

TEST_CASE("A buffer that forward rebinds is found") {
  Centered net(/*rebinds=*/true);
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer, [&] { return net.loss(); }, 24);
  check_findings({"module-replaced warning - center buffer_rebound -"});
}

TEST_CASE("Buffers that are written in place or never are silent") {
  Centered net(/*rebinds=*/false);
  attach_diagnostics(net, quiet());
  SGD optimizer(net.parameters(), 0.01);
  train(
      optimizer, [&] { return net.loss(); }, 24);
  check_silent();
}

TEST_CASE("A layer and an optimizer that are both replaced are silent") {
  Classifier net(4);
  attach_diagnostics(net, quiet());
  net->to(torch::kCPU);
  train_some(*net);
  net->head = net->replace_module("head", Linear(8, 4));
  train_some(*net);
  check_silent();
}

TEST_CASE("A member that nothing trains is found") {
  Classifier net(4);
  attach_diagnostics(net, quiet());
  std::vector<at::Tensor> members = net->parameters();
  members.push_back(torch::randn({8, 8}).requires_grad_());
  SGD optimizer(members, 0.01);
  train(optimizer, [&] { return net->loss(); });
  check_findings({"optim-foreign-parameter warning - SGD unknown_tensor -"});
}

TEST_CASE("An image that is trained and a frozen member are silent") {
  Classifier net(4);
  attach_diagnostics(net, quiet());
  std::vector<at::Tensor> members = net->parameters();
  members.push_back(torch::randn({5, 8}).requires_grad_());
  members.push_back(torch::randn({8, 8}));
  SGD optimizer(members, 0.01);
  const at::Tensor image = members[members.size() - 2];
  train(optimizer, [&] { return net->head(net->body(image)).square().mean(); });
  check_silent();
}

// Runs alone, and once more beside a library that stands before zero_grad (other_tool.c).
TEST_CASE("A function that another library took is told") {
  const auto* calls = static_cast<const int*>(dlsym(RTLD_DEFAULT, "other_tool_calls"));
  Classifier net(4);
  attach_diagnostics(net, quiet());
  train_some(*net);
  std::vector<Finding> refused = findings();
  std::erase_if(refused, [](const Finding& found) { return found.id != "tool-hook-refused"; });
  if (calls == nullptr) {
    CHECK(refused.empty());
    return;
  }
  CHECK(*calls == 8);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].subject == "interposed optimizer functions");
  CHECK(refused[0].what ==
        "interposed optimizer functions (1) belong to another library of the program; nothing "
        "takes their place");
}

}  // namespace ddpscope::test
