// Programs that change what backward needs, each beside a correct twin.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::BatchNorm1d;
using torch::nn::Linear;
using torch::nn::Module;

struct Gate : Module {
  at::Tensor forward(const at::Tensor& x) { return second(torch::sigmoid(first(x))); }
  at::Tensor loss() { return forward(input()).square().mean(); }
  Linear first = register_module("first", Linear(8, 8));
  Linear second = register_module("second", Linear(8, 2));
};

struct Normed : Module {
  at::Tensor loss() { return norm(first(input())).square().mean(); }
  Linear first = register_module("first", Linear(8, 4));
  BatchNorm1d norm = register_module("norm", BatchNorm1d(4));
};

at::Tensor loss_of_two_forwards(Normed& net, bool first_in_training) {
  net.norm->train(first_in_training);
  const at::Tensor first = net.loss();
  net.norm->train();
  return first + net.loss();
}

/// `file:line` of the program in a site of this role.
std::string place(const Finding& finding, const std::string& role) {
  return text_fact(finding, role == "saved" ? "saved_site" : "writer_site");
}
std::string this_file(int line) { return "stale_tensors_test.cpp:" + std::to_string(line); }

/// Of what `leaf` gives, outside of any guard.
void expect_refused_write(Gate& net, const std::function<at::Tensor()>& leaf) {
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor written = leaf();
  CHECK_THROWS_AS(written.mul_(2), c10::Error);
  expect_at_exit({"autograd-leaf-inplace error first weight - aten::mul_",
                  "module-operator-failed error - - - aten::mul_"});
}
}  // namespace

TEST_CASE("A saved tensor that is written in place is named with both sites") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  at::Tensor y;
  const int saved = __LINE__ + 1;
  y = torch::sigmoid(net.first(input()));
  const int written = __LINE__ + 1;
  y.add_(1);
  CHECK_THROWS_AS(y.sum().backward(), c10::Error);
  check_findings({"autograd-inplace-saved error - - - aten::sigmoid"});
  const auto all = findings();
  const Finding& found = only(all, "autograd-inplace-saved");
  CHECK(found.what == "saved tensor [5, 8] is at version 1, backward needs version 0");
  CHECK(place(found, "saved") == this_file(saved));
  CHECK(place(found, "changed") == this_file(written));
  CHECK(text_fact(found, "writer_op") == "aten::add_");
}

TEST_CASE("A write through a foreach operator is seen") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = net.first(input());
  const at::Tensor y = x * x;
  const int written = __LINE__ + 1;
  torch::_foreach_mul_({x}, 2);
  CHECK_THROWS_AS(y.sum().backward(), c10::Error);
  const auto all = findings();
  const Finding& found = only(all, "autograd-inplace-saved");
  CHECK(text_fact(found, "writer_op") == "aten::_foreach_mul_");
  CHECK(place(found, "changed") == this_file(written));
}

TEST_CASE("An optimizer that steps between a forward and its backward is named") {
  Gate critic;
  Gate generator;
  attach_diagnostics(critic, quiet()).name("critic");
  attach_diagnostics(generator, quiet()).name("generator");
  torch::optim::Adam optimizer(critic.parameters());
  train(optimizer, [&] { return critic.loss(); });
  at::Tensor fake = generator.forward(input()).repeat({1, 4});
  const at::Tensor of_generator = critic.forward(fake).mean();
  optimizer.zero_grad();
  critic.loss().backward();
  optimizer.step();
  CHECK_THROWS_AS(of_generator.backward(), c10::Error);
  const auto all = findings();
  const Finding& found = only(all, "autograd-inplace-saved");
  CHECK(found.module_path == "second");
  CHECK(found.subject == "weight");
  CHECK(text_fact(found, "writer_kind") == "optimizer");
  CHECK(found.why.find("Adam's step()") == 0);
}

TEST_CASE("An optimizer that changes parameters behind the version counter is found") {
  Gate critic;
  attach_diagnostics(critic, quiet());
  torch::optim::SGD optimizer(critic.parameters(), 0.1);
  train(optimizer, [&] { return critic.loss(); });
  const at::Tensor fake = torch::randn({5, 8}, torch::requires_grad());
  const at::Tensor of_generator = critic.forward(fake).mean();
  optimizer.zero_grad();
  critic.loss().backward();
  optimizer.step();
  of_generator.backward();  // nothing throws
  check_findings({"autograd-silent-overwrite error - - - aten::addmm"});
  const auto all = findings();
  const Finding& found = only(all, "autograd-silent-overwrite");
  CHECK(text_fact(found, "writer_kind") == "optimizer");
}

TEST_CASE("A write through data() between forward and backward is found") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = torch::randn({5, 8}, torch::requires_grad());
  const at::Tensor loss = net.forward(x).sum();
  const int written = __LINE__ + 1;
  net.second->weight.data().mul_(0.5);
  loss.backward();
  check_findings({"autograd-silent-overwrite error second weight - aten::addmm"});
  const auto all = findings();
  CHECK(place(only(all, "autograd-silent-overwrite"), "changed") == this_file(written));
}

TEST_CASE("Buffers that are copied between two forwards are named") {
  Normed net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor mean = torch::zeros({4});
  const at::Tensor first = net.loss();
  net.norm->running_mean.copy_(mean);  // a broadcast before each forward
  const at::Tensor second = net.loss();
  CHECK_THROWS_AS((first + second).backward(), c10::Error);
  check_findings({"norm-buffer-overwritten error norm running_mean - aten::native_batch_norm"});
}

TEST_CASE("Statistics of a layer in eval mode that a later forward updates are found") {
  Normed net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return loss_of_two_forwards(net, /*first_in_training=*/false); });
  check_findings({"autograd-silent-overwrite error norm - - aten::native_batch_norm"});
  const auto all = findings();
  const std::string& why = only(all, "autograd-silent-overwrite").why;
  CHECK(why.starts_with("a forward of the layer in training mode updated it after"));
}

TEST_CASE("Statistics in training mode may be updated between two forwards") {
  Normed net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  train(optimizer, [&] { return loss_of_two_forwards(net, /*first_in_training=*/true); });
  check_findings({});
}

TEST_CASE("A trainable leaf that is written with grad mode on is named") {
  Gate net;
  expect_refused_write(net, [&] { return net.first->weight; });
}

TEST_CASE("A trainable leaf that is written through a view with grad mode on is named") {
  Gate net;
  expect_refused_write(net, [&] { return net.first->weight[0]; });
}

TEST_CASE("A guard without a name is told") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor scratch = torch::zeros({2});
  torch::NoGradGuard();
  scratch.add_(1);  // no leaf
  CHECK_THROWS_AS(net.first->weight.mul_(2), c10::Error);
  expect_at_exit({"autograd-leaf-inplace error first weight unnamed_guard aten::mul_",
                  "module-operator-failed error - - - aten::mul_"});
}

TEST_CASE("A guard that had an operator is not taken for one without a name") {
  Gate net;
  expect_refused_write(net, [&] {
    const torch::NoGradGuard guard;
    torch::zeros({2}).add_(1);
    return net.first->weight;
  });
}

TEST_CASE("A guard that ended long ago is not taken for one without a name") {
  Gate net;
  expect_refused_write(net, [&] {
    torch::NoGradGuard();
    const at::Tensor scratch = torch::zeros({2});
    for (int i = 0; i < 8; ++i) scratch.add_(1);
    return net.first->weight;
  });
}

TEST_CASE("The guard of an optimizer without gradients is not taken for one without a name") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  for (int i = 0; i < 4; ++i) torch::optim::SGD(net.first->parameters(), 0.1).step();
  CHECK_THROWS_AS(net.first->weight.mul_(2), c10::Error);
  expect_at_exit({"autograd-leaf-inplace error first weight - aten::mul_",
                  "module-operator-failed error - - - aten::mul_"});
}

TEST_CASE("A write that is older than the history is told as evicted") {
  Gate net;
  Options options = quiet();
  options.history = 16;
  attach_diagnostics(net, options);
  const at::Tensor y = torch::sigmoid(net.first(input()));
  y.add_(1);
  const at::Tensor other = torch::zeros({2});
  for (int i = 0; i < 100; ++i) other.add_(1);
  CHECK_THROWS_AS(y.sum().backward(), c10::Error);
  check_findings({"autograd-inplace-saved error - - - aten::sigmoid"});
  const auto all = findings();
  CHECK(text_fact(only(all, "autograd-inplace-saved"), "writer_kind") == "unknown");
  CHECK(find(all, "tool-ring-evicted") != nullptr);
}

TEST_CASE("A running total with history is found as a graph that grows") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  torch::optim::SGD optimizer(net.parameters(), 0.0);
  at::Tensor total = torch::zeros({});
  for (int i = 0; i < 12; ++i) {
    optimizer.zero_grad();
    total = total + net.loss();
    total.backward({}, /*retain_graph=*/true);
    optimizer.step();
  }
  const auto all = findings();
  CHECK(text_fact(only(all, "autograd-graph-retained"), "cause") == "reached");
}

TEST_CASE("Losses that are kept in a list are found") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  torch::optim::SGD optimizer(net.parameters(), 0.01);
  std::vector<at::Tensor> losses;
  train(
      optimizer,
      [&] {
        losses.push_back(net.loss());
        return losses.back();
      },
      12);
  const auto all = findings();
  CHECK(text_fact(only(all, "autograd-graph-retained"), "cause") == "kept");
}

}  // namespace ddpscope::test
