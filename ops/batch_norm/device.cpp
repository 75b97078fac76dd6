#include "ops/batch_norm/device.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "ops/batch_norm/layout.h"
#include "ops/batch_norm/mixed_up.h"

namespace ddpscope::batch_norm {
namespace {

cuda::NormView view_of(const at::Tensor& x) {
  const NormShape shape = shape_of(x);
  return {.kind = static_cast<cuda::ScalarKind>(shape.kind),
          .layout =
              shape.layout == Layout::kPlanes ? cuda::NormLayout::kPlanes : cuda::NormLayout::kRows,
          .batch = shape.batch,
          .channels = shape.channels,
          .plane = shape.plane};
}

cuda::RecordForm form_of(const Call& call, Phase phase) {
  if (!call.group) return {};
  const int ranks = call.group->size();
  return {.is_summed = !call.gathers, .id = id_of(call, phase, ranks), .ranks = ranks};
}

/// Of a tensor without gaps.
cuda::PerChannel numbers_of(const at::Tensor& numbers) {
  if (!numbers.defined()) return {};
  return {const_cast<void*>(numbers.const_data_ptr()),
          static_cast<cuda::ScalarKind>(scalar_kind(numbers.scalar_type()))};
}

double* doubles_of(at::Tensor& numbers) { return numbers.mutable_data_ptr<double>(); }

/// For the pass over one tensor.
struct Space {
  Space(const cuda::NormView& view, const device::Place& place)
      : partials(place.empty(place.kernels->norm_workspace_items(view), at::kDouble)),
        tickets(place.tickets(place.kernels->norm_tickets(view))) {}
  cuda::Workspace get() {
    return {doubles_of(partials), reinterpret_cast<unsigned*>(tickets.mutable_data_ptr<int>())};
  }
  at::Tensor partials, tickets;
};

void check_capture(const Call& call, const device::Place& place) {
  TORCH_CHECK(!call.group || call.group->is_capturable() || !place.is_capturing(),
              "sync_batch_norm: ", call.group->name(),
              " cannot be captured in a CUDA graph: it waits on the host");
}

void set_running(const RunningUpdate& running, cuda::NormalizeCall& call) {
  if (!running.mean.defined()) return;
  call.running_mean = numbers_of(running.mean);
  call.running_variance = numbers_of(running.variance);
  call.momentum = running.momentum;
  if (running.counter.defined()) {
    TORCH_CHECK(running.counter.scalar_type() == at::kLong, "sync_batch_norm: on a device ",
                "num_batches_tracked must be Long, but is ", running.counter.scalar_type());
    call.counter = running.counter.mutable_data_ptr<std::int64_t>();
  }
  bump(running.counter);
}

/// What a kernel wrote in the place of what has gaps goes back there.
void give_back(const at::Tensor& dense, const at::Tensor& running) {
  if (dense.is_same(running)) {
    bump(running);
  } else {
    running.copy_(dense);
  }
}

template <class KernelCall>
void tell_mixed_up(KernelCall& kernel, const Call& call, Phase phase, const device::Place& place) {
  if (!call.group) return;
  kernel.mixed_up = mixed_up_notice(place);
  kernel.place = note_place(call, phase);
}

at::Tensor reduce_over_ranks(cuda::ReduceCall& reduce, const Call& call,
                             const device::Place& place) {
  const std::int64_t items =
      cuda::backward_record_items(reduce.view.channels, reduce.form.is_summed);
  at::Tensor record = place.empty(items, at::kDouble);
  reduce.record = doubles_of(record);
  Space space(reduce.view, place);
  reduce.workspace = space.get();
  place.check(place.kernels->norm_reduce(reduce, place.stream), "the sums of a batch norm");
  return exchange_record(std::move(record), call, Phase::kBackward);
}

}  // namespace

void measure_on_device(const at::Tensor& x, Call& call, const device::Place& place) {
  const c10::DeviceGuard guard(place.device);
  check_capture(call, place);
  throw_if_mixed_up();
  const cuda::NormView view = view_of(x);
  const cuda::RecordForm form = form_of(call, Phase::kForward);
  at::Tensor record =
      place.empty(cuda::forward_record_items(view.channels, form.is_summed), at::kDouble);
  Space space(view, place);
  const cuda::StatsCall stats = {.view = view,
                                 .x = x.const_data_ptr(),
                                 .form = form,
                                 .record = doubles_of(record),
                                 .workspace = space.get()};
  place.check(place.kernels->norm_stats(stats, place.stream), "statistics of a batch norm");
  call.records = exchange_record(std::move(record), call, Phase::kForward);
}

at::Tensor normalize_on_device(const NormTensors& tensors, const at::Tensor& bias,
                               const ForwardOnDevice& on_device, Call& call,
                               const device::Place& place) {
  const c10::DeviceGuard guard(place.device);
  RunningUpdate running = on_device.running;
  running.mean = dense(running.mean);
  running.variance = dense(running.variance);
  const at::Tensor& x = tensors.x;
  at::Tensor y = at::empty_like(x);
  const at::Tensor weight = dense(tensors.weight), shift = dense(bias);
  cuda::NormalizeCall normalize = {.view = view_of(x),
                                   .x = x.const_data_ptr(),
                                   .y = y.mutable_data_ptr(),
                                   .weight = numbers_of(weight),
                                   .bias = numbers_of(shift),
                                   .form = form_of(call, Phase::kForward),
                                   .eps = on_device.eps};
  at::Tensor tickets = place.tickets(1);
  normalize.tickets = reinterpret_cast<unsigned*>(tickets.mutable_data_ptr<int>());
  if (call.records.defined()) {
    const std::int64_t channels = normalize.view.channels;
    const at::Tensor all = place.empty(cuda::statistics_items(channels), at::kDouble);
    call.statistics = all.narrow(0, 0, 2 * channels).view({2, channels});
    call.device_inverse_count = all.select(0, 2 * channels);
    normalize.records = call.records.const_data_ptr<double>();
    set_running(running, normalize);
    tell_mixed_up(normalize, call, Phase::kForward, place);
  }
  normalize.statistics = doubles_of(call.statistics);
  place.check(place.kernels->normalize(normalize, place.stream), "a batch norm");
  give_back(running.mean, on_device.running.mean);
  give_back(running.variance, on_device.running.variance);
  call.records.reset();
  return y;
}

Gradients backward_on_device(const NormTensors& tensors, const at::Tensor& dy, const Call& call,
                             const device::Place& place, bool needs_input) {
  const c10::DeviceGuard guard(place.device);
  check_capture(call, place);
  throw_if_mixed_up();
  const cuda::NormView view = view_of(tensors.x);
  const std::int64_t channels = view.channels;
  const at::Tensor weight = dense(tensors.weight);
  const auto options = weight.defined() ? weight.options() : tensors.x.options().dtype(at::kFloat);
  Gradients gradients;
  gradients.weight = at::empty({channels}, options);
  gradients.bias = at::empty({channels}, options);
  gradients.sums = place.empty(4 * channels, at::kDouble).view({4, channels});
  cuda::ReduceCall reduce = {.view = view,
                             .x = tensors.x.const_data_ptr(),
                             .dy = dy.const_data_ptr(),
                             .statistics = tensors.statistics.const_data_ptr<double>(),
                             .form = form_of(call, Phase::kBackward),
                             .own = doubles_of(gradients.sums),
                             .weight_gradient = numbers_of(gradients.weight),
                             .bias_gradient = numbers_of(gradients.bias)};
  // Also where the gradient of the input is not needed: it may be on another rank.
  const at::Tensor records = reduce_over_ranks(reduce, call, place);
  if (!needs_input) return gradients;
  gradients.input = at::empty_like(tensors.x);
  cuda::GradInputCall input = {.view = view,
                               .x = reduce.x,
                               .dy = reduce.dy,
                               .dx = gradients.input.mutable_data_ptr(),
                               .weight = numbers_of(weight),
                               .statistics = reduce.statistics,
                               .form = reduce.form,
                               .records = records.const_data_ptr<double>(),
                               .total = reduce.own + 2 * channels};
  tell_mixed_up(input, call, Phase::kBackward, place);
  place.check(place.kernels->grad_input(input, place.stream), "the gradient of a batch norm");
  return gradients;
}

void keep_constants(const at::Tensor& statistics, Call& call) {
  const at::Tensor all = at::cat({statistics.view(-1), at::zeros({1}, statistics.options())});
  call.statistics = all.narrow(0, 0, statistics.numel()).view(statistics.sizes());
  call.device_inverse_count = all.select(0, statistics.numel());
}

}  // namespace ddpscope::batch_norm
