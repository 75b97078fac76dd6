#include "ops/batch_norm/arguments.h"

#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <sstream>

#include "ops/device/place.h"
#include "ops/traced.h"

namespace ddpscope::batch_norm {
namespace {

std::string described(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " of shape " << tensor.sizes() << " on " << tensor.device();
  return text.str();
}

bool is_dense_floating(const at::Tensor& input) {
  const at::ScalarType dtype = input.scalar_type();
  return input.layout() == at::kStrided && (dtype == at::kHalf || dtype == at::kBFloat16 ||
                                            dtype == at::kFloat || dtype == at::kDouble);
}

bool is_reached(const at::Tensor& input) {
  return input.is_cpu() || device::why_unavailable(input.device()).empty();
}

struct Arguments {
  const at::Tensor& input;
  std::string place;  ///< "sync_batch_norm", with the layer where it has a name

  void check_input() const {
    TORCH_CHECK(input.defined(), place, ": input is undefined");
    TORCH_CHECK(input.dim() >= 2, place, ": input must be (B, C, ...), but is ", described(input));
    TORCH_CHECK(is_dense_floating(input), place,
                ": input must be dense Half, BFloat16, Float or Double, but is ", described(input));
    TORCH_CHECK(is_reached(input), place,
                ": input must be on the CPU or on a GPU in reach, but is ", described(input), "; ",
                device::why_unavailable(input.device()));
    TORCH_CHECK(!ops::is_traced(input), place, ": input has no memory, as in a program that is ",
                "traced: call torch.ops.ddpscope.sync_batch_norm there; it is ", described(input));
  }

  void check_per_channel(const char* name, const at::Tensor& tensor) const {
    if (!tensor.defined()) return;
    TORCH_CHECK(tensor.dim() == 1 && tensor.size(0) == input.size(1), place, ": ", name,
                " must have the shape [", input.size(1), "] of the channels of input, but is ",
                described(tensor), "; input is ", described(input));
    TORCH_CHECK(tensor.layout() == at::kStrided, place, ": ", name, " must be dense, but is ",
                described(tensor), " of layout ", tensor.layout());
    check_device(name, tensor);
    const at::ScalarType dtype = tensor.scalar_type();
    TORCH_CHECK(dtype == at::kFloat || dtype == at::kDouble || dtype == input.scalar_type(), place,
                ": ", name, " must be Float, Double or of the dtype of input, but is ",
                described(tensor), "; input is ", described(input));
  }

  void check_written(const char* name, const at::Tensor& tensor) const {
    if (!tensor.defined()) return;
    TORCH_CHECK(!tensor.requires_grad() || !c10::GradMode::is_enabled(), place, ": ", name,
                " is written and must not require a gradient: register it as a buffer");
    TORCH_CHECK(!tensor._is_zerotensor(), place, ": ", name,
                " is a tensor of zeros without memory to write to: call clone() first");
    TORCH_CHECK(tensor.numel() < 2 || tensor.stride(0) != 0, place, ": ", name,
                " has elements that overlap in memory: call clone() first; it is ",
                described(tensor));
  }

  void check_apart(const RunningTensors& running) const {
    if (!running.mean.defined() || !running.variance.defined()) return;
    const at::MemOverlapStatus status = at::get_overlap_status(running.mean, running.variance);
    TORCH_CHECK(status != at::MemOverlapStatus::Full && status != at::MemOverlapStatus::Partial,
                place,
                ": running_mean and running_var share memory; give each its own: running_mean ",
                "is ", described(running.mean));
  }

  void check_counter(const at::Tensor& counter) const {
    if (!counter.defined()) return;
    TORCH_CHECK(counter.numel() == 1 && !counter.is_complex() && counter.scalar_type() != at::kBool,
                place, ": num_batches_tracked must be one number, but is ", described(counter));
    check_device("num_batches_tracked", counter);
  }

 private:
  void check_device(const char* name, const at::Tensor& tensor) const {
    TORCH_CHECK(tensor.device() == input.device(), place, ": ", name, " must be on the device of ",
                "input, but is ", described(tensor), "; input is ", described(input));
  }
};

}  // namespace

bool is_supported(const at::Tensor& input) {
  return input.defined() && input.dim() >= 2 && is_dense_floating(input) && is_reached(input);
}

void check_arguments(const at::Tensor& input, const RunningTensors& running,
                     const SyncBatchNormFuncOptions& options) {
  const Arguments arguments = {
      input, options.name().empty() ? "sync_batch_norm" : "sync_batch_norm " + options.name()};
  arguments.check_input();
  arguments.check_per_channel("weight", options.weight());
  arguments.check_per_channel("bias", options.bias());
  arguments.check_per_channel("running_mean", running.mean);
  arguments.check_per_channel("running_var", running.variance);
  arguments.check_counter(options.num_batches_tracked());
  if (options.training()) {
    arguments.check_written("running_mean", running.mean);
    arguments.check_written("running_var", running.variance);
    arguments.check_written("num_batches_tracked", options.num_batches_tracked());
    arguments.check_apart(running);
  }
  TORCH_CHECK(running.mean.defined() == running.variance.defined(), arguments.place, ": ",
              running.mean.defined() ? "running_mean" : "running_var", " is given without ",
              running.mean.defined() ? "running_var" : "running_mean");
  const bool averages = options.training() && running.mean.defined();
  TORCH_CHECK(!averages || options.momentum() || options.num_batches_tracked().defined(),
              arguments.place, ": without momentum the average needs num_batches_tracked");
  TORCH_CHECK(!options.momentum() || std::isfinite(*options.momentum()), arguments.place,
              ": momentum must be finite, but is ", options.momentum().value_or(0));
  TORCH_CHECK(options.eps() >= 0, arguments.place, ": eps must be at least 0, but is ",
              options.eps());
}

}  // namespace ddpscope::batch_norm
