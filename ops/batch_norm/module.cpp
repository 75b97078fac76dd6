#include <ddpscope/ops/sync_batch_norm.h>
#include <torch/nn/init.h>
#include <torch/types.h>

namespace ddpscope {
inline namespace api0 {

template <std::size_t D, class Derived>
SyncBatchNormImplBase<D, Derived>::SyncBatchNormImplBase(
    const torch::nn::BatchNormOptions& options_, CommunicatorPtr communicator_, std::string layer_)
    : options(options_), communicator(std::move(communicator_)), layer(std::move(layer_)) {
  SyncBatchNormImplBase::reset();
}

template <std::size_t D, class Derived>
SyncBatchNormImplBase<D, Derived>::SyncBatchNormImplBase(
    const torch::nn::BatchNormOptions& options_, CommunicatorPtr communicator_, std::string layer_,
    const torch::nn::Module& norm)
    : options(options_), communicator(std::move(communicator_)), layer(std::move(layer_)) {
  const auto found = [](const auto& tensors, const char* name) {
    const at::Tensor* const tensor = tensors.find(name);
    return tensor == nullptr ? at::Tensor() : *tensor;
  };
  const auto parameters = norm.named_parameters(/*recurse=*/false);
  const auto parameter = [&](const char* name) {
    const at::Tensor tensor = found(parameters, name);
    return this->register_parameter(name, tensor, tensor.defined() && tensor.requires_grad());
  };
  const auto buffers = norm.named_buffers(/*recurse=*/false);
  const auto buffer = [&](const char* name) {
    return this->register_buffer(name, found(buffers, name));
  };
  weight = parameter("weight");
  bias = parameter("bias");
  running_mean = buffer("running_mean");
  running_var = buffer("running_var");
  num_batches_tracked = buffer("num_batches_tracked");
  this->train(norm.is_training());
}

template <std::size_t D, class Derived>
void SyncBatchNormImplBase<D, Derived>::reset() {
  const auto per_channel = [this](bool exists) {
    return exists ? torch::empty({options.num_features()}) : at::Tensor();
  };
  const bool affine = options.affine();
  weight = this->register_parameter("weight", per_channel(affine), affine);
  bias = this->register_parameter("bias", per_channel(affine), affine);
  const bool tracks = options.track_running_stats();
  running_mean = this->register_buffer("running_mean", per_channel(tracks));
  running_var = this->register_buffer("running_var", per_channel(tracks));
  num_batches_tracked = this->register_buffer(
      "num_batches_tracked", tracks ? torch::zeros({}, torch::kLong) : at::Tensor());
  reset_parameters();
}

template <std::size_t D, class Derived>
void SyncBatchNormImplBase<D, Derived>::reset_running_stats() {
  if (!options.track_running_stats()) return;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

template <std::size_t D, class Derived>
void SyncBatchNormImplBase<D, Derived>::reset_parameters() {
  reset_running_stats();
  if (!options.affine()) return;
  torch::nn::init::ones_(weight);
  torch::nn::init::zeros_(bias);
}

template <std::size_t D, class Derived>
at::Tensor SyncBatchNormImplBase<D, Derived>::forward(const at::Tensor& input) {
  TORCH_CHECK(input.defined(), "SyncBatchNorm", D, "d", layer.empty() ? "" : " " + layer,
              ": input is undefined");
  const std::int64_t dimensions = input.dim();
  TORCH_CHECK(dimensions == D + 2 || (D == 1 && dimensions == 2), "SyncBatchNorm", D, "d",
              layer.empty() ? "" : " " + layer, ": input must have ", D == 1 ? "2 or " : "", D + 2,
              " dimensions, but has the shape ", input.sizes());
  return sync_batch_norm(input, running_mean, running_var,
                         SyncBatchNormFuncOptions()
                             .weight(weight)
                             .bias(bias)
                             .num_batches_tracked(num_batches_tracked)
                             .training(this->is_training())
                             .momentum(options.momentum())
                             .eps(options.eps())
                             .communicator(communicator)
                             .exchange(exchange)
                             .name(layer));
}

template <std::size_t D, class Derived>
void SyncBatchNormImplBase<D, Derived>::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "ddpscope::SyncBatchNorm" << D << "d(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) {
    stream << *options.momentum();
  } else {
    stream << "None";
  }
  stream << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats()
         << ", ranks=" << (communicator ? communicator->size() : 1) << ')';
}

template class SyncBatchNormImplBase<1, SyncBatchNorm1dImpl>;
template class SyncBatchNormImplBase<2, SyncBatchNorm2dImpl>;
template class SyncBatchNormImplBase<3, SyncBatchNorm3dImpl>;

}  // namespace api0
}  // namespace ddpscope
