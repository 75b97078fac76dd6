#pragma once

#include <ddpscope/ops.h>
#include <torch/torch.h>

#include <vector>

#include "tests/ops/thread_group.h"
#include "tests/support/catch.h"

namespace ddpscope::test {

/// One forward and backward in training on as many ranks as there are batches.
struct NormCase {
  std::vector<at::Tensor> inputs;     ///< one per rank
  std::vector<at::Tensor> gradients;  ///< of the outputs
  at::Tensor weight;                  ///< undefined: 1
  at::Tensor bias;
  std::optional<double> momentum = 0.1;
  double eps = 1e-5;
  bool tracks = true;
  ExchangeMode exchange = ExchangeMode::kAuto;
  at::ScalarType running_dtype = at::kFloat;
};

struct NormOutcome {
  at::Tensor y, dx, dweight, dbias;  ///< of one rank
  at::Tensor running_mean, running_var, count;
};

/// Random batches of so many samples, of the shape (samples, C, ...), around `mean`.
struct Batches {
  std::vector<std::int64_t> samples = {2, 3};
  std::vector<std::int64_t> shape = {5, 4, 4};  ///< C, ...
  at::ScalarType dtype = at::kFloat;
  bool channels_last = false;
  bool affine = true;
  double mean = 1;
  double deviation = 2;
};
NormCase make_case(const Batches& batches);

std::vector<NormOutcome> run_case(const NormCase& norm);
/// By torch::batch_norm in Double over all ranks together, then cut up again.
std::vector<NormOutcome> oracle_of(const NormCase& norm);

/// Largest difference over the largest magnitude of `expected`.
double error_of(const at::Tensor& found, const at::Tensor& expected);
/// Compares all that a rank got, within the limits of the dtype.
void check_outcomes(const NormCase& norm);
void check_outcomes(const NormCase& norm, const std::vector<NormOutcome>& found);
bool same_bits(const at::Tensor& a, const at::Tensor& b);
/// From a generator of its own: ranks that are threads share the default one.
at::Tensor seeded_randn(int seed, at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat);

}  // namespace ddpscope::test
