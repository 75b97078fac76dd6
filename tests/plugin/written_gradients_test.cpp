// Two ranks whose programs write gradients, or weights, by themselves.
#include "tests/plugin/merged_run.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test::written_gradients_test {
namespace {
constexpr int kWrittenSteps = 32;
using Tensors = std::vector<at::Tensor>;

/// Each rank has data of its own.
at::Tensor loss_of(Net& net, const Place& place) {
  return net(torch::randn({16, 8}) + place.rank).square().mean();
}

void average(const Group& group, const Tensors& tensors) {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& tensor : tensors) {
    all_reduce(group, tensor);
    tensor.div_(2);
  }
}

/// What autograd::grad returns; of a graph of its own, as for a penalty or a meta step.
Tensors gradients_of(Net& net, const Place& place, bool create_graph = false) {
  return torch::autograd::grad({loss_of(net, place)}, net->parameters(), {}, std::nullopt,
                               create_graph);
}

/// Steps with it; `averaged` so many of them.
void step_with_written(Net& net, torch::optim::SGD& optimizer, const Group& group,
                       Tensors gradients, std::size_t averaged) {
  const Tensors parameters = net->parameters();
  optimizer.zero_grad();
  gradients.resize(parameters.size());
  average(group, {gradients.begin(), gradients.begin() + static_cast<std::ptrdiff_t>(averaged)});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = gradients[i].detach().clone();
  }
  optimizer.step();
}

template <class Step>
Merged run_written(Step&& step) {
  const auto program = [step](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.02);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    for (int i = 0; i < kWrittenSteps; ++i) step(net, optimizer, place, group);
    return 0;
  };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  return merge();
}
}  // namespace

TEST_CASE("Gradients that the program writes and nobody averages are found") {
  const Merged merged = run_written([](Net& net, auto& optimizer, auto& place, auto& group) {
    step_with_written(net, optimizer, group, gradients_of(net, place), 0);
  });
  INFO(merged.said);
  CHECK(merged.says("differ between ranks at step() (none_seen) [grad-not-reduced]"));
  CHECK(merged.says("and were equal before the first (drift) [rank-parameters-differ]"));
  CHECK(merged.says("0 errors, 2 warnings,"));
}

TEST_CASE("Gradients that have a graph and nobody averages are told as such") {
  const Merged merged = run_written([](Net& net, auto& optimizer, auto& place, auto& group) {
    step_with_written(net, optimizer, group, gradients_of(net, place, /*create_graph=*/true), 0);
  });
  INFO(merged.said);
  CHECK(merged.says("differ between ranks at step() (second_order) [grad-not-reduced]"));
  CHECK(merged.says("autograd::grad() with create_graph: it returns gradients past all hooks"));
}

TEST_CASE("Gradients that the program writes and averages in part are found") {
  const Merged merged = run_written([](Net& net, auto& optimizer, auto& place, auto& group) {
    step_with_written(net, optimizer, group, gradients_of(net, place), 1);
  });
  INFO(merged.said);
  CHECK(merged.says("differ between ranks at step() (subset) [grad-not-reduced]"));
}

TEST_CASE("Gradients that the program writes and averages are silent") {
  const Merged merged = run_written([](Net& net, auto& optimizer, auto& place, auto& group) {
    step_with_written(net, optimizer, group, gradients_of(net, place), net->parameters().size());
    loss_of(net, place).backward();  // only to look at, and cleared before the next step
  });
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("Updates by hand beside an optimizer that only clears are compared") {
  const Merged merged = run_written([](Net& net, auto& optimizer, auto& place, auto&) {
    optimizer.zero_grad();
    loss_of(net, place).backward();
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.sub_(parameter.grad() * 0.02);
  });
  INFO(merged.said);
  CHECK(merged.says("and were equal before the first (drift) [rank-parameters-differ]"));
}

TEST_CASE("Parts of the weights that each rank steps with two optimizers and sends are silent") {
  const auto program = [](const Place& place) {
    const Group group = place.group();
    torch::manual_seed(1);
    Net net;
    attach_diagnostics(net, quiet());
    const Tensors all = net->parameters();
    const auto own = static_cast<std::size_t>(place.rank) * 2;
    torch::optim::SGD of_weight(Tensors{all[own]}, 0.02);
    torch::optim::SGD of_bias(Tensors{all[own + 1]}, 0.02);
    torch::manual_seed(static_cast<std::uint64_t>(place.rank) + 2);
    for (int i = 0; i < kWrittenSteps; ++i) {
      net->zero_grad();
      loss_of(net, place).backward();
      for (const at::Tensor& parameter : all) average(group, {parameter.grad()});
      of_weight.step();
      of_bias.step();
      const torch::NoGradGuard no_grad;
      for (std::size_t at = 0; at < all.size(); ++at) {
        if (at / 2 != static_cast<std::size_t>(place.rank)) all[at].zero_();
        all_reduce(group, all[at]);
      }
    }
    return 0;
  };
  CHECK(Ranks(2, program).exit_codes() == std::vector<int>{0, 0});
  const Merged merged = merge();
  INFO(merged.said);
  CHECK(merged.says("0 errors, 0 warnings,"));
}

TEST_CASE("Weights that ranks give their gradients are meant, also by a product and of 0") {
  const double weight = GENERATE(0.0, 0.5);
  const bool by_product = GENERATE(true, false);
  const Merged merged = run_written([=](Net& net, auto& optimizer, auto& place, auto& group) {
    optimizer.zero_grad();
    loss_of(net, place).backward();
    const double own = place.rank == 0 ? 1 : weight;
    for (const at::Tensor& parameter : net->parameters()) {
      if (by_product) parameter.grad().data() = parameter.grad().data() * own;
      if (!by_product) parameter.grad().mul_(own);
      average(group, {parameter.grad()});
    }
    optimizer.step();
  });
  INFO(merged.said);
  CHECK_FALSE(merged.says("grad-reduced-wrong-scale"));
}

}  // namespace ddpscope::test::written_gradients_test
