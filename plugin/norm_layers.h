#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hooks/weak_owner.h"

namespace ddpscope {

/// A batch norm layer of an attached model, or a module that may hand tensors of its own to the
/// operator. Keeps nothing of it alive.
struct NormLayerOfModel {
  std::string name;         ///< its path; of several models, behind the model's label
  std::string description;  ///< what ranks must agree in, on one line
  bool is_layer = false;
  bool is_excluded = false;
  std::thread::id owner;  ///< the thread that attached its model
  WeakOwner<const torch::nn::Module> module;
  /// Weight and running mean; else whatever has one value per channel.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> tensors;

  bool holds(const c10::TensorImpl* tensor) const noexcept;
  /// No call tells that it is of this layer: it has neither weight nor running mean.
  bool is_nameless() const noexcept { return is_layer && tensors.empty(); }
  /// Without running statistics the operator is told that it trains in evaluation, too.
  bool is_training() const;
};

/// An attached model and its label.
using AttachedRoot = std::pair<std::string, std::shared_ptr<torch::nn::Module>>;

/// First the layers in the order in which they are registered: each torch::nn::BatchNorm, and each
/// module of another type that registers a `running_mean` itself; instance norms and ddpscope's own
/// synchronised layers are none. Then the other modules with tensors of one dimension. `excluded`
/// are globs of paths.
std::vector<NormLayerOfModel> norm_layers_of(const std::vector<AttachedRoot>& roots,
                                             const std::string& excluded);

/// In one line, of many the first.
std::string names_of(const std::vector<NormLayerOfModel>& layers,
                     const std::function<bool(const NormLayerOfModel&)>& is_named);

}  // namespace ddpscope
