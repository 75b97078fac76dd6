// What ranks leave of the values of their tensors, to be compared.
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace ddpscope::test {
namespace {
struct NormedImpl : torch::nn::Module {
  NormedImpl() {
    line = register_module("line", torch::nn::Linear(8, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
  }
  torch::Tensor forward(const torch::Tensor& input) { return norm(line(input)); }
  torch::nn::Linear line{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Normed);

/// The batches of rank 1 lie elsewhere, and rank 0 evaluates.
int train_on_own_batches(const Place& place) {
  const Group group = place.group();
  torch::manual_seed(1);
  Normed net;
  Options options = quiet();
  options.level = "values";
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= 4; ++step) {
    optimizer.zero_grad();
    net(torch::randn({16, 8}) + 5 * place.rank).pow(2).mean().backward();
    for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
    optimizer.step();
  }
  const torch::NoGradGuard no_grad;
  net->eval();
  if (place.rank == 0) net(torch::randn({2, 8}));
  return 0;
}

/// A teacher normalizes each rank's batch before what is trained reads it.
int train_beside_a_teacher(const Place& place) {
  const Group group = place.group();
  torch::manual_seed(1);
  Normed net;
  Normed teacher;
  for (const Normed& one : {net, teacher}) {
    Options options = quiet();
    options.level = "values";
    attach_diagnostics(one, options);
  }
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 1; step <= 4; ++step) {
    const at::Tensor batch = torch::randn({16, 8}) + 5 * place.rank;
    {
      const torch::NoGradGuard no_grad;
      teacher(batch);
    }
    optimizer.zero_grad();
    net(batch).pow(2).mean().backward();
    for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
    optimizer.step();
  }
  return 0;
}

using Between = std::function<void(const Place&, const std::vector<at::Tensor>&)>;

/// Steps in which gradients are changed before they are summed, and after.
int train_with(const Place& place, const Between& before, const Between& after) {
  const Group group = place.group();
  torch::manual_seed(1);
  torch::nn::Linear net(8, 4);
  Options options = quiet();
  options.level = "values";
  attach_diagnostics(net, options);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  torch::manual_seed(2 + place.rank);
  for (int step = 1; step <= 4; ++step) {
    optimizer.zero_grad();
    net(torch::randn({16, 8})).pow(2).mean().backward();
    const torch::NoGradGuard no_grad;
    before(place, net->parameters());
    for (const at::Tensor& parameter : net->parameters()) all_reduce(group, parameter.grad());
    after(place, net->parameters());
    optimizer.step();
  }
  return 0;
}

void halve(const Place&, const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) parameter.grad().div_(2);
}

void nothing(const Place&, const std::vector<at::Tensor>&) {}

std::vector<ReducedLeft> left_by(const Between& before, const Between& after) {
  Ranks ranks(2, [&](const Place& place) { return train_with(place, before, after); });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::vector<ReducedLeft> left = compare_gradients_in({ring_path(0), ring_path(1)});
  REQUIRE(left.size() == 4);
  return left;
}
}  // namespace

TEST_CASE("Ranks leave what their gradients are to the mean") {
  double ratio = 1;
  std::vector<ReducedLeft> left;
  SECTION("divided after the sum") { left = left_by(nothing, halve); }
  SECTION("divided before it") { left = left_by(halve, nothing); }
  SECTION("copied from a flat buffer, as views in their shape") {
    left = left_by(nothing, [](const Place&, const std::vector<at::Tensor>& parameters) {
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : parameters)
        gradients.push_back(parameter.grad().flatten());
      const at::Tensor all = torch::cat(gradients).div_(2);
      std::int64_t begin = 0;
      for (const at::Tensor& parameter : parameters) {
        parameter.grad().copy_(all.narrow(0, begin, parameter.numel()).view_as(parameter));
        begin += parameter.numel();
      }
    });
  }
  SECTION("not divided") {
    left = left_by(nothing, nothing);
    ratio = 2;
  }
  for (const ReducedLeft& step : left) {
    CHECK(step.sampled == 2);
    CHECK(step.differing == 0);
    CHECK(step.ratio == Approx(ratio));
    CHECK(step.residual < 1e-5);
  }
}

TEST_CASE("Ranks leave no sum of gradients that the program makes something else of") {
  Between before = nothing;
  Between after = halve;
  SECTION("its own decay") {
    after = [](const Place& place, const std::vector<at::Tensor>& parameters) {
      halve(place, parameters);
      for (const at::Tensor& parameter : parameters) parameter.grad().add_(parameter, 0.5);
    };
  }
  SECTION("its own decay, below autograd and as a list") {
    after = [](const Place&, const std::vector<at::Tensor>& parameters) {
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad().data());
      at::_foreach_add_(gradients, parameters, 0.5);
    };
  }
  SECTION("the largest elements alone") {
    before = [](const Place&, const std::vector<at::Tensor>& parameters) {
      for (const at::Tensor& parameter : parameters) {
        const at::Tensor flat = parameter.grad().flatten();
        const at::Tensor largest = std::get<1>(torch::topk(flat.abs(), 2));
        at::Tensor kept = torch::zeros_like(flat);
        kept.index_copy_(0, largest, flat.index_select(0, largest));
        parameter.grad().copy_(kept.view_as(parameter));
      }
    };
  }
  SECTION("signs, with what was left of the step before") {
    before = [](const Place&, const std::vector<at::Tensor>& parameters) {
      for (const at::Tensor& parameter : parameters) {
        const at::Tensor sum = parameter.grad() + 0.5 * torch::ones_like(parameter);
        parameter.grad().copy_(sum.sign() * sum.abs().mean());
      }
    };
  }
  SECTION("its own decay in a buffer of all gradients") {
    after = [](const Place& place, const std::vector<at::Tensor>& parameters) {
      halve(place, parameters);
      std::vector<at::Tensor> gradients;
      std::vector<at::Tensor> weights;
      for (const at::Tensor& parameter : parameters) {
        gradients.push_back(parameter.grad().flatten());
        weights.push_back(parameter.flatten());
      }
      const at::Tensor all = torch::cat(gradients).add_(torch::cat(weights), 0.5);
      std::int64_t begin = 0;
      for (const at::Tensor& parameter : parameters) {
        parameter.grad().copy_(all.narrow(0, begin, parameter.numel()).view_as(parameter));
        begin += parameter.numel();
      }
    };
  }
  SECTION("a mask") {
    after = [](const Place&, const std::vector<at::Tensor>& parameters) {
      for (const at::Tensor& parameter : parameters) {
        parameter.grad().mul_(torch::arange(parameter.numel()).remainder(2).view_as(parameter));
      }
    };
  }
  SECTION("limits of each element") {
    before = [](const Place&, const std::vector<at::Tensor>& parameters) {
      for (const at::Tensor& parameter : parameters) parameter.grad().clamp_(-1e-3, 1e-3);
    };
  }
  SECTION("a weight of each rank") {
    before = [](const Place& place, const std::vector<at::Tensor>& parameters) {
      for (const at::Tensor& parameter : parameters) parameter.grad().mul_(1 + 2 * place.rank);
    };
  }
  for (const ReducedLeft& step : left_by(before, after)) {
    CHECK(step.sampled == 2);
    CHECK(step.differing == 0);
    CHECK(step.ratio == 0);
    CHECK(step.residual == 0);
  }
}

TEST_CASE("Buffers that a teacher has changed are not those of the start") {
  Ranks ranks(2, train_beside_a_teacher);
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const ValuesLeft left = compare_values_in({ring_path(0), ring_path(1)});
  CHECK(left.path == "norm.running_mean");
  CHECK(left.step == 4);
}

TEST_CASE("Ranks leave how far their tensors lie apart, and which of them evaluated") {
  Ranks ranks(2, train_on_own_batches);
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const ValuesLeft left = compare_values_in({ring_path(0), ring_path(1)});
  CHECK(left.evaluated == std::vector<bool>{true, false});
  CHECK(left.path == "norm.running_mean");
  CHECK(left.step == 4);
  CHECK(left.relative > 0.1);
}

}  // namespace ddpscope::test
