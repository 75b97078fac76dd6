#pragma once

#include <ATen/core/Tensor.h>
#include <ddpscope/export.h>
#include <ddpscope/ops/communicator.h>
#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

/// Batch norm whose statistics cover every rank of a group. docs/operators.md tells how to use it.
namespace ddpscope {
inline namespace api0 {

/// How ranks join their statistics. The same on every rank.
enum class ExchangeMode : std::uint8_t {
  kAuto,    ///< kGather for Double input, else kSum
  kSum,     ///< one all-reduce of 2C + 3 numbers; its order of summation is the backend's
  kGather,  ///< all records to all ranks, merged in the order of ranks: as exact as one batch
};

struct SyncBatchNormFuncOptions {
  TORCH_ARG(at::Tensor, weight) = {};               ///< (C); undefined: 1
  TORCH_ARG(at::Tensor, bias) = {};                 ///< (C); undefined: 0
  TORCH_ARG(at::Tensor, num_batches_tracked) = {};  ///< one element; counts calls in training
  TORCH_ARG(bool, training) = false;
  /// nullopt: cumulative average, needs num_batches_tracked.
  TORCH_ARG(std::optional<double>, momentum) = 0.1;
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(CommunicatorPtr, communicator) = nullptr;  ///< null: this rank alone
  TORCH_ARG(ExchangeMode, exchange) = ExchangeMode::kAuto;
  TORCH_ARG(std::string, name) = {};  ///< of the layer, in errors; the same on every rank
};

/// Batch norm whose batch statistics cover every rank of `options.communicator()`.
///
/// y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and biased variance per channel
/// over the batch and the planes of all ranks. Ranks are weighted by their number of values.
/// Differentiable twice; gradients of weight and bias are those of this rank, to be averaged over
/// ranks as all others are.
///
/// In training every rank must call it, and run its backward, also with an empty batch. In
/// evaluation nothing is exchanged and no running value changes; without running values it is the
/// batch of this rank that counts there. Called inside a backward, to recompute activations, it
/// changes no running value and no counter.
///
/// On a CUDA device forward and backward queue two launches each and the exchange on its current
/// stream, and nothing waits unless the communicator does; a graph may capture both if it is
/// capturable. There ranks that turn out to differ are told by a later call, num_batches_tracked
/// must be Long, and an observer is told of exchanges alone.
///
/// @param input  (B, C, ...) with at least 2 dimensions; Half, BFloat16, Float or Double; CPU or
///               CUDA. B may be 0 and may differ between ranks; C must not. Any strides; if not
///               dense it is copied once. In Half, BFloat16 and Float |x| above 1e19 gives Inf or
///               NaN.
/// @param running_mean, running_var  (C) each, or both undefined. Updated in place in training, the
///               second with the unbiased variance of all ranks. Float, Double or the input's
///               dtype.
/// @return Same shape, dtype and memory format as `input`.
/// @throws c10::Error for fewer than 2 dimensions, a per-channel tensor that is not (C), an
///         unsupported dtype or device, devices that differ, or one value per channel in a group of
///         one; nothing is changed then. Also if ranks turn out to have called different layers,
///         and what the communicator throws, with layer, call and phase.
/// Thread: any, on different tensors; one communicator is used by one thread at a time.
/// Sources: Ioffe and Szegedy, "Batch Normalization", ICML 2015; Chan, Golub and LeVeque,
/// "Algorithms for Computing the Sample Variance", The American Statistician 37 (1983).
DDPSCOPE_API at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& running_mean,
                                        const at::Tensor& running_var,
                                        const SyncBatchNormFuncOptions& options);

/// The group over which the setting `sync_batch_norm` runs the batch norms of attached models,
/// where `Attachment::process_group` gives none; null: the first c10d group of all ranks on which
/// the program issues a collective. Set the same on every rank, before the first forward in
/// training. Thread: any.
DDPSCOPE_API void set_batch_norm_communicator(const CommunicatorPtr& communicator);

/// What the modules share. Parameters and buffers have the names and the order of those of
/// torch::nn::BatchNorm: archives are interchangeable.
template <std::size_t D, class Derived>
class DDPSCOPE_API SyncBatchNormImplBase : public torch::nn::Cloneable<Derived> {
 public:
  /// @param communicator  Null: this rank alone. Clones share it.
  /// @param layer         Names the module in errors; the same on every rank.
  explicit SyncBatchNormImplBase(const torch::nn::BatchNormOptions& options,
                                 CommunicatorPtr communicator = nullptr, std::string layer = {});
  /// Registers the parameters and buffers of `norm`, the tensors themselves, and trains if `norm`
  /// does. `options` are those of `norm`.
  SyncBatchNormImplBase(const torch::nn::BatchNormOptions& options, CommunicatorPtr communicator,
                        std::string layer, const torch::nn::Module& norm);

  /// @throws c10::Error as sync_batch_norm, or if `input` has other dimensions than the module is
  ///         for: 2 or 3 of 1d, 4 of 2d, 5 of 3d.
  at::Tensor forward(const at::Tensor& input);

  void reset() override;
  void reset_running_stats();
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  torch::nn::BatchNormOptions options;
  CommunicatorPtr communicator;
  std::string layer;
  ExchangeMode exchange = ExchangeMode::kAuto;
  at::Tensor weight, bias;
  at::Tensor running_mean, running_var, num_batches_tracked;
};

class DDPSCOPE_API SyncBatchNorm1dImpl : public SyncBatchNormImplBase<1, SyncBatchNorm1dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
};
class DDPSCOPE_API SyncBatchNorm2dImpl : public SyncBatchNormImplBase<2, SyncBatchNorm2dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
};
class DDPSCOPE_API SyncBatchNorm3dImpl : public SyncBatchNormImplBase<3, SyncBatchNorm3dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
};
extern template class SyncBatchNormImplBase<1, SyncBatchNorm1dImpl>;
extern template class SyncBatchNormImplBase<2, SyncBatchNorm2dImpl>;
extern template class SyncBatchNormImplBase<3, SyncBatchNorm3dImpl>;
TORCH_MODULE(SyncBatchNorm1d);
TORCH_MODULE(SyncBatchNorm2d);
TORCH_MODULE(SyncBatchNorm3d);

/// What `convert_sync_batch_norm` did. Names are dotted, below the module that was given.
struct ConversionReport {
  std::vector<std::string> converted;
  /// Batch norms that stayed, and why.
  std::vector<std::pair<std::string, std::string>> not_converted;
};

/// Replaces the torch::nn::BatchNorm1d, 2d and 3d below `module` that are elements of a
/// torch::nn::Sequential: other parents hold their type. Classes that derive from them stay.
/// Tensors are taken over, not copied: optimizers built before stay valid. Each new module is named
/// after its path, behind `name` and a dot where that is given: layers of two models that share a
/// communicator must differ in their names, or ranks that run them in another order are not told.
/// Thread: any, while no other thread uses the module.
DDPSCOPE_API ConversionReport convert_sync_batch_norm(torch::nn::Module& module,
                                                      const CommunicatorPtr& communicator,
                                                      const std::string& name = {});

}  // namespace api0
}  // namespace ddpscope
