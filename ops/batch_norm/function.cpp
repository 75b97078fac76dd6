#include "ops/batch_norm/function.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/batch_norm/autograd.h"
#include "ops/batch_norm/facts.h"
#include "ops/batch_norm/layout.h"

namespace ddpscope {
namespace batch_norm {
namespace {

/// Where mean and variance of a call come from.
enum class Source : std::uint8_t { kGroup, kOwnBatch, kRunning };

Source source_of(const SyncBatchNormFuncOptions& options, const RunningTensors& running) {
  if (!options.training()) return running.mean.defined() ? Source::kRunning : Source::kOwnBatch;
  return has_group(options) ? Source::kGroup : Source::kOwnBatch;
}

/// Counted before anything is refused: a call that one rank refuses is one that the others wait in.
std::int64_t count_call(const SyncBatchNormFuncOptions& options, Source source) {
  return source == Source::kGroup ? options.communicator()->count_call(options.name()) : 0;
}

// An activation that is recomputed inside a backward has been counted by its forward.
bool is_recomputed() { return torch::autograd::get_current_graph_task_id() != -1; }

// In double, rounded once.
void update(const at::Tensor& running, const std::vector<double>& sums, double count,
            double momentum) {
  const at::Tensor written = dense(running);  // itself, if that is how it lies
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, written.scalar_type(), "sync_batch_norm", [&] {
        auto* const numbers = written.mutable_data_ptr<scalar_t>();
        for (std::size_t c = 0; c < sums.size(); ++c) {
          const double before = numbers[c];
          numbers[c] = static_cast<scalar_t>(before * (1 - momentum) + sums[c] / count * momentum);
        }
      });
  if (written.is_same(running)) {
    bump(running);
  } else {
    running.copy_(written);
  }
}

void count_batch(const at::Tensor& counter) {
  if (counter.scalar_type() != at::kLong || counter.is_neg()) {
    counter.add_(1);
  } else {
    ++*counter.mutable_data_ptr<std::int64_t>();
    bump(counter);
  }
}

void update_running(const Moments& moments, const RunningTensors& running,
                    const SyncBatchNormFuncOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor& counter = options.num_batches_tracked();
  if (counter.defined()) count_batch(counter);
  const double momentum = options.momentum() ? *options.momentum() : 1 / counter.item<double>();
  update(running.mean, moments.mean, 1, momentum);
  // One value has no unbiased variance: what was known before stays.
  if (moments.count < 2) return;
  update(running.variance, moments.m2, moments.count - 1, momentum);
}

at::Tensor statistics_of(const std::vector<double>& mean, const std::vector<double>& inverse) {
  at::Tensor statistics = at::empty({2, static_cast<std::int64_t>(mean.size())},
                                    at::TensorOptions().dtype(at::kDouble));
  std::ranges::copy(inverse, std::ranges::copy(mean, statistics.mutable_data_ptr<double>()).out);
  return statistics;
}

/// As torch has it, 0 of values that are all equal where no eps keeps it finite.
double inverse_deviation_of(double variance, double eps) {
  const double square = variance + eps;
  return square == 0 ? 0 : 1 / std::sqrt(square);
}

at::Tensor statistics_of_batch(const Moments& moments, double eps) {
  std::vector<double> inverse(moments.mean.size());
  for (std::size_t c = 0; c < inverse.size(); ++c) {
    inverse[c] = inverse_deviation_of(moments.count > 0 ? moments.m2[c] / moments.count : 0, eps);
  }
  return statistics_of(moments.mean, inverse);
}

at::Tensor statistics_of_running(const RunningTensors& running, double eps) {
  const at::NoGradGuard no_grad;
  if (!running.mean.is_cpu()) {
    return at::stack(
        {running.mean.to(at::kDouble), (running.variance.to(at::kDouble) + eps).rsqrt()});
  }
  std::vector<double> inverse = in_double(running.variance);
  for (double& number : inverse) number = 1 / std::sqrt(number + eps);
  return statistics_of(in_double(running.mean), inverse);
}

void check_values(const at::Tensor& x, const Call& call) {
  TORCH_CHECK(call.group || x.numel() != x.size(1) || x.numel() == 0, "sync_batch_norm",
              call.layer.empty() ? "" : " " + call.layer,
              ": one value per channel has no variance; input has the shape ", x.sizes());
}

Moments moments_of(const at::Tensor& x, const Call& call) {
  const Moments moments = measure_tensor(x);
  Moments all = exchange_moments(moments, call);
  tell_forward(moments, all, call, is_recomputed());
  return all;
}

bool moves_running(const RunningTensors& running, const SyncBatchNormFuncOptions& options) {
  return options.training() && running.mean.defined() && !is_recomputed();
}

ForwardOnDevice on_device(const RunningTensors& running, const SyncBatchNormFuncOptions& options) {
  ForwardOnDevice forward = {.eps = options.eps()};
  if (moves_running(running, options)) {
    forward.running = {running.mean, running.variance, options.num_batches_tracked(),
                       options.momentum().value_or(NAN)};
  }
  return forward;
}

}  // namespace

bool has_group(const SyncBatchNormFuncOptions& options) {
  return options.communicator() && options.communicator()->size() > 1;
}

CallPtr make_call(const at::Tensor& input, const SyncBatchNormFuncOptions& options, bool exchanges,
                  std::int64_t number) {
  auto call = c10::make_intrusive<Call>();
  call->layer = options.name();
  if (!exchanges) return call;
  call->group = options.communicator();
  call->number = number;
  call->channels = input.size(1);
  call->gathers = options.exchange() == ExchangeMode::kGather ||
                  (options.exchange() == ExchangeMode::kAuto && input.scalar_type() == at::kDouble);
  return call;
}

Started start(const at::Tensor& input, const RunningTensors& running,
              const SyncBatchNormFuncOptions& options) {
  const Source source = source_of(options, running);
  const std::int64_t number = count_call(options, source);
  check_arguments(input, running, options);
  const at::Tensor x = without_gaps(in_memory(input));
  const CallPtr call = make_call(x, options, source == Source::kGroup, number);
  if (source != Source::kRunning) check_values(x, *call);
  if (source == Source::kRunning) {
    call->statistics = statistics_of_running(running, options.eps());
    if (!x.is_cpu()) keep_constants(call->statistics, *call);
  } else if (!x.is_cpu()) {
    measure_on_device(x.detach(), *call, device::current_place(x.device()));
  } else {
    const Moments moments = moments_of(x.detach(), *call);
    if (moments.count > 0) {
      call->inverse_count = 1 / moments.count;
      if (moves_running(running, options)) update_running(moments, running, options);
    }
    call->statistics = statistics_of_batch(moments, options.eps());
  }
  return {x, call, on_device(running, options)};
}

}  // namespace batch_norm

inline namespace api0 {

at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& running_mean,
                           const at::Tensor& running_var, const SyncBatchNormFuncOptions& options) {
  const auto [x, call, on_device] = batch_norm::start(input, {running_mean, running_var}, options);
  return batch_norm::normalize_in_graph(x, options.weight(), options.bias(), call, on_device);
}

}  // namespace api0
}  // namespace ddpscope
