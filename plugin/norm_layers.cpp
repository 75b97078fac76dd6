#include "plugin/norm_layers.h"

#include <ddpscope/ops/sync_batch_norm.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>

#include <algorithm>
#include <sstream>

#include "config/glob.h"
#include "hooks/module_tree.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

template <class... Types>
bool is_one_of(const Module& module) {
  return (... || (dynamic_cast<const Types*>(&module) != nullptr));
}

bool normalizes_otherwise(const Module& module) {
  using namespace torch::nn;  // NOLINT
  return is_one_of<InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl, SyncBatchNorm1dImpl,
                   SyncBatchNorm2dImpl, SyncBatchNorm3dImpl>(module);
}

template <class Norm>
const torch::nn::BatchNormOptions* options_as(const Module& module) {
  const auto* const norm = dynamic_cast<const Norm*>(&module);
  return norm == nullptr ? nullptr : &norm->options;
}

/// Null where the module is no batch norm of LibTorch, nor derived from one.
const torch::nn::BatchNormOptions* options_of(const Module& module) {
  using namespace torch::nn;  // NOLINT
  const auto* options = options_as<BatchNorm1dImpl>(module);
  if (options == nullptr) options = options_as<BatchNorm2dImpl>(module);
  return options != nullptr ? options : options_as<BatchNorm3dImpl>(module);
}

const at::Tensor* registered(const Registered::Tensors& tensors, const char* name) {
  const at::Tensor* const tensor = tensors.find(name);
  return tensor != nullptr && tensor->defined() ? tensor : nullptr;
}

std::string name_of(const std::string& label, const std::string& path, bool is_only_model) {
  if (path.empty()) return label;
  return is_only_model ? path : label + "." + path;
}

std::string described(const NormLayerOfModel& layer, const torch::nn::BatchNormOptions* options,
                      const at::Tensor* tensor) {
  std::ostringstream text;
  text << layer.name;
  if (options != nullptr) {
    text << " channels=" << options->num_features() << " eps=" << options->eps() << " momentum=";
    options->momentum() ? text << *options->momentum() : text << "none";
    text << " affine=" << options->affine() << " tracks=" << options->track_running_stats();
  } else if (tensor != nullptr) {
    text << " channels=" << tensor->numel();
  }
  if (tensor != nullptr) text << " on=" << c10::DeviceTypeName(tensor->device().type(), true);
  if (layer.is_excluded) text << " excluded";
  return text.str();
}

void add_tensors_of_channels(const Registered::Tensors& tensors, NormLayerOfModel& layer) {
  for (const auto& item : tensors) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || tensor.dim() != 1 || !tensor.is_floating_point()) continue;
    layer.tensors.emplace_back(tensor.getIntrusivePtr());
  }
}

void add_module(const Module& module, NormLayerOfModel layer,
                std::vector<NormLayerOfModel>& layers) {
  if (normalizes_otherwise(module)) return;
  const auto* const options = options_of(module);
  const at::Tensor* const weight = registered(Registered::parameters(module), "weight");
  const at::Tensor* const mean = registered(Registered::buffers(module), "running_mean");
  layer.is_layer = options != nullptr || mean != nullptr;
  if (layer.is_layer) {
    for (const at::Tensor* tensor : {weight, mean}) {
      if (tensor != nullptr) layer.tensors.emplace_back(tensor->getIntrusivePtr());
    }
    layer.description = described(layer, options, mean != nullptr ? mean : weight);
  } else {
    add_tensors_of_channels(Registered::parameters(module), layer);
    add_tensors_of_channels(Registered::buffers(module), layer);
    if (layer.tensors.empty()) return;
  }
  layers.push_back(std::move(layer));
}
}  // namespace

bool NormLayerOfModel::holds(const c10::TensorImpl* tensor) const noexcept {
  return tensor != nullptr && std::ranges::any_of(tensors, [tensor](const auto& own) {
           return own._unsafe_get_target() == tensor;
         });
}

bool NormLayerOfModel::is_training() const {
  const auto alive = module.lock();
  return alive != nullptr && alive->is_training();
}

std::vector<NormLayerOfModel> norm_layers_of(const std::vector<AttachedRoot>& roots,
                                             const std::string& excluded) {
  std::vector<NormLayerOfModel> layers;
  const auto globs = split_list(excluded);
  for (const auto& [label, root] : roots) {
    for_each_below(*root, [&](const Module& module, const PlaceInTree& place) {
      const std::string& path = place.path;
      NormLayerOfModel layer;
      layer.name = name_of(label, path, roots.size() == 1);
      layer.is_excluded = std::ranges::any_of(
          globs, [&path](std::string_view glob) { return glob_match(glob, path); });
      layer.owner = std::this_thread::get_id();
      layer.module = &module == root.get() ? std::weak_ptr<const Module>(root)
                                           : const_cast<Module&>(module).weak_from_this();
      add_module(module, std::move(layer), layers);
    });
  }
  std::ranges::stable_partition(layers, &NormLayerOfModel::is_layer);
  return layers;
}

std::string names_of(const std::vector<NormLayerOfModel>& layers,
                     const std::function<bool(const NormLayerOfModel&)>& is_named) {
  constexpr std::size_t kLongList = 400;
  std::string names;
  for (const NormLayerOfModel& layer : layers) {
    if (names.size() >= kLongList || !is_named(layer)) continue;
    names += (names.empty() ? "" : ", ") + layer.name;
  }
  return names;
}

}  // namespace ddpscope
