#include "tests/ops/batch_norm/norm_case.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace ddpscope::test {
namespace {

struct Limits {
  double y, dx, parameters;
};

Limits limits_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return {1e-3, 2e-3, 1e-5};
    case at::kBFloat16:
      return {8e-3, 1.6e-2, 1e-5};
    case at::kFloat:
      return {2e-6, 1e-5, 1e-5};
    default:
      return {1e-12, 1e-11, 1e-12};
  }
}

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().clone().requires_grad_() : at::Tensor();
}

at::Tensor grad_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.grad() : at::Tensor();
}

at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.movedim(1, -1).contiguous().movedim(-1, 1);
}

std::vector<std::int64_t> sizes_of(std::int64_t samples, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> sizes = {samples};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return sizes;
}

NormOutcome run_rank(const NormCase& norm, std::size_t rank, const CommunicatorPtr& group) {
  const at::Tensor x = norm.inputs[rank].detach().requires_grad_();
  const at::Tensor weight = leaf(norm.weight), bias = leaf(norm.bias);
  NormOutcome outcome;
  if (norm.tracks) {
    outcome.running_mean = torch::zeros({x.size(1)}, norm.running_dtype);
    outcome.running_var = torch::ones({x.size(1)}, norm.running_dtype);
    outcome.count = torch::zeros({}, at::kLong);
  }
  outcome.y = sync_batch_norm(x, outcome.running_mean, outcome.running_var,
                              SyncBatchNormFuncOptions()
                                  .weight(weight)
                                  .bias(bias)
                                  .num_batches_tracked(outcome.count)
                                  .training(true)
                                  .momentum(norm.momentum)
                                  .eps(norm.eps)
                                  .communicator(group)
                                  .exchange(norm.exchange)
                                  .name("norm"));
  outcome.y.backward(norm.gradients[rank]);
  outcome.dx = x.grad();
  outcome.dweight = grad_of(weight);
  outcome.dbias = grad_of(bias);
  return outcome;
}

// dweight and dbias are those of one rank: their sums are made here.
void add_parameter_gradients(const NormCase& norm, NormOutcome& rank, const at::Tensor& x,
                             const at::Tensor& dy, const std::vector<at::Tensor>& statistics) {
  const auto wide = [&](const at::Tensor& numbers) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
    sizes[1] = numbers.numel();
    return numbers.view(sizes);
  };
  const auto sum = [](const at::Tensor& tensor) {
    return tensor.movedim(1, 0).reshape({tensor.size(1), -1}).sum(1);
  };
  const at::Tensor normal = (x - wide(statistics[0])) / wide((statistics[1] + norm.eps).sqrt());
  if (norm.weight.defined()) rank.dweight = sum(dy * normal);
  if (norm.bias.defined()) rank.dbias = sum(dy);
}

at::Tensor doubles(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kDouble) : tensor;
}

}  // namespace

NormCase make_case(const Batches& batches) {
  torch::manual_seed(1);  // other cases draw in threads, in an order of their own
  NormCase norm;
  for (const std::int64_t samples : batches.samples) {
    const auto sizes = sizes_of(samples, batches.shape);
    const at::Tensor x = torch::randn(sizes, at::kDouble) * batches.deviation + batches.mean;
    const at::Tensor dy = torch::randn(sizes, at::kDouble);
    norm.inputs.push_back((batches.channels_last ? as_rows(x) : x).to(batches.dtype));
    norm.gradients.push_back((batches.channels_last ? as_rows(dy) : dy).to(batches.dtype));
  }
  if (batches.affine) {
    const auto dtype = batches.dtype == at::kDouble ? at::kDouble : at::kFloat;
    norm.weight = torch::randn({batches.shape[0]}, dtype);
    norm.bias = torch::randn({batches.shape[0]}, dtype);
  }
  return norm;
}

std::vector<NormOutcome> run_case(const NormCase& norm) {
  return on_ranks(static_cast<int>(norm.inputs.size()),
                  [&](int rank, const CommunicatorPtr& group) {
                    return run_rank(norm, static_cast<std::size_t>(rank), group);
                  });
}

std::vector<NormOutcome> oracle_of(const NormCase& norm) {
  const at::Tensor x = doubles(torch::cat(norm.inputs)).contiguous().detach().requires_grad_();
  const at::Tensor mean = torch::zeros({x.size(1)}, at::kDouble);
  const at::Tensor variance = torch::ones({x.size(1)}, at::kDouble);
  const double momentum = norm.momentum.value_or(1);
  const at::Tensor y = torch::batch_norm(x, doubles(norm.weight), doubles(norm.bias), mean,
                                         variance, true, momentum, norm.eps, false);
  y.backward(doubles(torch::cat(norm.gradients)).contiguous());
  const at::Tensor columns = x.detach().movedim(1, 0).reshape({x.size(1), -1});
  const std::vector<at::Tensor> statistics = {columns.mean(1), columns.var(1, false)};
  std::vector<NormOutcome> outcomes;
  std::int64_t at = 0;
  for (std::size_t rank = 0; rank < norm.inputs.size(); ++rank) {
    const std::int64_t samples = norm.inputs[rank].size(0);
    NormOutcome outcome;
    outcome.y = y.detach().narrow(0, at, samples);
    outcome.dx = x.grad().narrow(0, at, samples);
    outcome.running_mean = mean;
    outcome.running_var = variance;
    add_parameter_gradients(norm, outcome, x.detach().narrow(0, at, samples),
                            doubles(norm.gradients[rank]), statistics);
    outcomes.push_back(outcome);
    at += samples;
  }
  return outcomes;
}

double error_of(const at::Tensor& found, const at::Tensor& expected) {
  if (expected.numel() == 0) return found.numel() == 0 ? 0 : INFINITY;
  if (found.sizes() != expected.sizes()) return INFINITY;
  const double largest = expected.abs().max().item<double>();
  const double difference = (found.detach().to(at::kDouble) - expected).abs().max().item<double>();
  return difference / (largest > 0 ? largest : 1);
}

void check_outcomes(const NormCase& norm) { check_outcomes(norm, run_case(norm)); }

void check_outcomes(const NormCase& norm, const std::vector<NormOutcome>& found) {
  const auto expected = oracle_of(norm);
  const Limits limits = limits_of(norm.inputs[0].scalar_type());
  std::int64_t values = 0;
  for (const at::Tensor& input : norm.inputs) values += input.numel() / input.size(1);
  const double root = std::sqrt(static_cast<double>(values));
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    INFO("rank " << rank << " of " << found.size() << ", " << norm.inputs[rank].sizes() << " "
                 << norm.inputs[rank].scalar_type());
    CHECK(found[rank].y.strides() == norm.inputs[rank].strides());
    CHECK(found[rank].y.scalar_type() == norm.inputs[rank].scalar_type());
    CHECK(error_of(found[rank].y, expected[rank].y) < limits.y);
    CHECK(error_of(found[rank].dx, expected[rank].dx) < limits.dx);
    for (const auto member : {&NormOutcome::dweight, &NormOutcome::dbias}) {
      CHECK((found[rank].*member).defined() == (expected[rank].*member).defined());
      if (!(expected[rank].*member).defined()) continue;
      const at::Tensor difference = (found[rank].*member).to(at::kDouble) - expected[rank].*member;
      CHECK(difference.abs().max().item<double>() < limits.parameters * root * 4);
    }
    if (!norm.tracks) continue;
    CHECK(error_of(found[rank].running_mean, expected[rank].running_mean) < 1e-6);
    CHECK(error_of(found[rank].running_var, expected[rank].running_var) < 1e-6);
    CHECK(found[rank].count.item<std::int64_t>() == 1);
    CHECK(same_bits(found[rank].running_var, found[0].running_var));
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.detach().contiguous().view(-1).view(at::kByte);
  };
  return torch::equal(bytes(a), bytes(b));
}

at::Tensor seeded_randn(int seed, at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed));
  return at::randn(sizes, generator, dtype);
}

}  // namespace ddpscope::test
