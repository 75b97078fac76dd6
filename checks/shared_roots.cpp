#include "checks/shared_roots.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace ddpscope {
namespace {
constexpr double kMinRatio = 0.9;

std::set<TensorId> parameters_of(const ModelState& model) {
  std::set<TensorId> ids;
  for (const RegisteredTensor& registered : model.tensors) {
    if (!registered.is_buffer) ids.insert(registered.tensor.id);
  }
  return ids;
}

bool stands_in(const ModelState& inner, const ModelState& outer) {
  return !inner.modules.empty() && std::ranges::find(outer.modules, inner.modules.front().id,
                                                     &ModuleInfo::id) != outer.modules.end();
}
}  // namespace

void AttachedRoots::on(const TreeEvent& event) {
  Attached& known = attached_[event.model];
  if (known.times == 0) known.step = event.at.step;
  if (event.attached && event.at.step == known.step) ++known.times;
  const bool is_default =
      event.label == event.class_name || event.label.starts_with(event.class_name + "#");
  const bool is_known = std::ranges::find(known.names, event.label) != known.names.end();
  if (!is_default && !is_known) known.names.push_back(event.label);
}

std::vector<SharedRoots> sharing_memory(const std::map<TensorId, TensorId>& sources,
                                        const RunState& state) {
  // A model may have ended since.
  const auto model_of = [&state](TensorId id) -> ModelId {
    const TensorState* tensor = state.tensor(id);
    return tensor == nullptr || tensor->registrations.empty() ? 0
                                                              : tensor->registrations.front().model;
  };
  std::map<std::pair<ModelId, ModelId>, std::vector<TensorId>> found;
  for (const auto& [id, source] : sources) {
    const std::pair models(model_of(source), model_of(id));
    const bool are_both = models.first != 0 && models.second != 0;
    if (are_both && models.first != models.second) found[models].push_back(id);
  }
  std::vector<SharedRoots> all;
  for (auto& [models, ids] : found) {
    const ModelState& model = state.models().at(models.second);
    const auto total = static_cast<std::int64_t>(parameters_of(model).size());
    if (static_cast<double>(ids.size()) < kMinRatio * static_cast<double>(total)) continue;
    all.push_back({.first = state.models().at(models.first).label,
                   .second = model.label,
                   .shared = std::move(ids),
                   .total = total,
                   .by_memory = true});
  }
  return all;
}

std::vector<SharedRoots> AttachedRoots::shared(const RunState& state) const {
  std::vector<SharedRoots> all;
  for (auto second = state.models().begin(); second != state.models().end(); ++second) {
    const ModelState& model = second->second;
    const std::set<TensorId> ids = parameters_of(model);
    const auto total = static_cast<std::int64_t>(ids.size());
    if (const auto known = attached_.find(model.id); known != attached_.end() && total > 0) {
      const auto& [names, step, times] = known->second;
      const std::vector<TensorId> own(ids.begin(), ids.end());
      for (std::size_t i = 1; i < names.size(); ++i) {
        all.push_back({names[0], names[i], own, total});
      }
      if (names.empty() && times > 1) {
        all.push_back({"the " + model.label + " attached before it", model.label, own, total,
                       /*is_nameless=*/true});
      }
    }
    for (auto first = state.models().begin(); first != second; ++first) {
      const ModelState& other = first->second;
      if (stands_in(model, other) || stands_in(other, model)) continue;
      const std::set<TensorId> theirs = parameters_of(other);
      SharedRoots roots{.first = other.label, .second = model.label, .total = total};
      std::ranges::set_intersection(ids, theirs, std::back_inserter(roots.shared));
      const auto most = static_cast<double>(std::max(ids.size(), theirs.size()));
      const auto shared = static_cast<double>(roots.shared.size());
      if (shared > 0 && shared >= kMinRatio * most) all.push_back(std::move(roots));
    }
  }
  return all;
}

}  // namespace ddpscope
