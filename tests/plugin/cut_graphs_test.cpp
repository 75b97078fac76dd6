// Programs whose loss lost its way to parameters, each beside a correct twin.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::Module;
using torch::optim::SGD;

std::string here(int line) { return "cut_graphs_test.cpp:" + std::to_string(line); }

/// Trains `net` on what `extra` makes of it beside the main loss.
template <class Extra>
void train_with(Side& net, Extra&& extra) {
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->main_loss() * extra(); }, 3);
}

void check_cut(const std::string& cause, const std::string& op, int line) {
  check_findings({"autograd-cut warning side - " + cause + " " + op});
  const auto all = findings();
  const Finding* found = find(all, "autograd-cut");
  REQUIRE(found != nullptr);
  CHECK(text_fact(*found, "cut_site") == here(line));
  CHECK(found->what == "cuts 2 trainable parameters (36 elements) of side from the loss");
}
}  // namespace

TEST_CASE("A detached part of the loss is named with its line") {
  Side net;
  const int line = __LINE__ + 1;
  train_with(net, [&] { return net->side(input()).detach().square().mean(); });
  check_cut("detach", "aten::detach", line);
}

TEST_CASE("What is detached before a layer that flattens its input is named with its line") {
  Side net;
  int line = 0;
  train_with(net, [&] {
    const at::Tensor rows = net->side(input()).unsqueeze(0).repeat({1, 1, 2});
    line = __LINE__ + 1;
    const at::Tensor values = rows.detach();
    return net->body(values).square().mean();
  });
  check_cut("detach", "aten::detach", line);
}

TEST_CASE("Values that are taken by data() are named with the line that uses them") {
  Side net;
  const int line = __LINE__ + 1;
  train_with(net, [&] { return net->side(input()).data().square().mean(); });
  check_cut("detach", "data()", line);
}

TEST_CASE("A part of the loss under a guard is named with its line") {
  Side net;
  int line = 0;
  train_with(net, [&] {
    const torch::NoGradGuard guard;
    line = __LINE__ + 1;
    return net->side(input()).square().mean();
  });
  check_cut("grad_mode_off", "aten::addmm", line);
}

TEST_CASE("Indices in place of values are named with their line") {
  Side net;
  const int line = __LINE__ + 1;
  train_with(net, [&] { return net->side(input()).argmax(1).to(torch::kFloat).mean() + 1; });
  check_cut("integer_op", "aten::argmax", line);
}

TEST_CASE("A loss that is read as a number and used again is named with its line") {
  Side net;
  const int line = __LINE__ + 1;
  train_with(net, [&] { return net->side(input()).square().mean().item<double>(); });
  check_cut("host_value", "aten::item", line);
}

TEST_CASE("Grad mode that nobody switched on again is an error") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  torch::GradMode::set_enabled(false);
  CHECK_THROWS_AS(net->loss().backward(), c10::Error);
  check_findings({"autograd-cut error first - grad_mode_off aten::addmm"});
}

namespace {
/// Trains one model, and then a second one on a forward under a guard.
void refuse_second(bool trains_on) {
  Net net;
  SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, 200);
  Net second;
  SGD of_second(second->parameters(), 0.01);
  at::Tensor output;
  {
    const torch::NoGradGuard guard;
    output = second->forward(input());
  }
  CHECK_THROWS_AS(output.square().mean().backward(), c10::Error);
  if (trains_on) {
    train(
        of_second, [&] { return second->loss(); }, 4);
  }
}
}  // namespace

TEST_CASE("A forward under a guard long after the start is an error when the program ends") {
  Net watched;
  attach_diagnostics(watched, quiet());
  refuse_second(/*trains_on=*/false);
  expect_at_exit({"autograd-cut error - - - -"});
}

TEST_CASE("A refused backward that the program catches to train on is no warning") {
  Net watched;
  attach_diagnostics(watched, quiet());
  refuse_second(/*trains_on=*/true);
  check_silent();
}

TEST_CASE("A loss that was made a leaf is an error") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  at::Tensor loss = net->loss().detach();
  loss.set_requires_grad(true);
  loss.backward();
  optimizer.step();
  check_findings({"autograd-cut error - - leaf_loss aten::detach"});
}

TEST_CASE("Parameters behind a loss that was made a leaf are cut off, and not left out of it") {
  Net net;
  attach_diagnostics(net, quiet());
  SGD optimizer(net->parameters(), 0.01);
  train(optimizer, [&] {
    at::Tensor loss = net->loss().detach();
    loss.set_requires_grad(true);
    return loss;
  });
  const auto all = findings();
  const Finding* const missing = find(all, "grad-missing");
  REQUIRE(missing != nullptr);
  CHECK(text_fact(*missing, "cause") == "cut");
}

TEST_CASE("Straight-through estimators, metrics and targets are no cuts") {
  Side net;
  Linear target(8, 4);
  attach_diagnostics(net, quiet());
  attach_diagnostics(target, quiet()).name("target");
  SGD optimizer(net->parameters(), 0.01);
  CHECK(target->parameters().size() == 2);
  double metric = 0;
  train(optimizer, [&] {
    const at::Tensor x = net->side(input());
    const at::Tensor straight = x + (x.round() - x).detach();
    metric += x.argmax(1).eq(0).to(torch::kFloat).mean().item<double>();
    const at::Tensor goal = target(input()).detach() + torch::zeros_like(x);
    const at::Tensor loss = net->main_loss() + (straight - goal).square().mean();
    return loss / loss.item<double>();
  });
  CHECK(metric >= 0);
  check_silent(2);
}

namespace {
struct Gan {
  Gan() {
    attach_diagnostics(generator, quiet()).name("generator");
    attach_diagnostics(critic, quiet()).name("critic");
  }
  /// The gradients of the generator's loss in the critic are cleared before its own.
  void train_critic(const at::Tensor& samples) {
    train(
        for_critic, [&] { return critic(samples.detach()).mean(); }, 1);
    for_critic.zero_grad();
  }
  Linear generator{2, 8};
  Linear critic{8, 1};
  SGD for_generator{generator->parameters(), 0.01};
  SGD for_critic{critic->parameters(), 0.01};
};
}  // namespace

TEST_CASE("A critic that trains on detached samples cuts nothing") {
  Gan gan;
  for (int i = 0; i < 6; ++i) {
    const at::Tensor noise = torch::randn({5, 2});
    gan.train_critic(gan.generator(noise));
    train(
        gan.for_generator, [&] { return -gan.critic(gan.generator(noise)).mean(); }, 1);
  }
  check_silent(2);
}

namespace {
/// A generator whose step detaches its samples, as the critic's rightly does, or makes them `again`
/// under a guard. Returns the line at fault.
int train_without_generator(bool again) {
  Gan gan;
  int line = 0;
  for (int i = 0; i < 6; ++i) {
    at::Tensor samples = gan.generator(torch::randn({5, 2}));
    gan.train_critic(samples);
    if (again) {
      const torch::NoGradGuard no_grad;
      line = __LINE__ + 1;
      samples = gan.generator(torch::randn({5, 2}));
    }
    if (!again) line = __LINE__ + 2;
    train(
        gan.for_generator, [&] { return -gan.critic(samples.detach()).mean(); }, 1);
  }
  return line;
}

void check_generator(const std::string& cause, const std::string& missing_cause, int line) {
  const auto all = findings();
  CHECK(all.size() == 2);
  const Finding* const cut = find(all, "autograd-cut");
  REQUIRE(cut != nullptr);
  CHECK(text_fact(*cut, "cause") == cause);
  CHECK(text_fact(*cut, "cut_site") == here(line));
  const Finding* const missing = find(all, "grad-missing");
  REQUIRE(missing != nullptr);
  CHECK(text_fact(*missing, "cause") == missing_cause);
  CHECK(missing->caused_by == cut->fingerprint);
}
}  // namespace

TEST_CASE("A generator that trains on detached samples is named with its own line") {
  check_generator("detach", "cut", train_without_generator(/*again=*/false));
}

TEST_CASE("A generator that runs under a guard is named with its own line") {
  check_generator("grad_mode_off", "grad_mode_off", train_without_generator(/*again=*/true));
}

}  // namespace ddpscope::test
