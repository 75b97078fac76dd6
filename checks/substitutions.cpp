#include "checks/substitutions.h"

#include <algorithm>
#include <optional>

namespace ddpscope {
namespace {
bool lies_in(const std::string& path, const std::string& module) {
  return path == module || module.empty() || path.starts_with(module + ".");
}

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string type_of(const ModulePlace& place, const RunState& state) {
  const auto model = state.models().find(place.model);
  if (model == state.models().end()) return "";
  const auto& modules = model->second.modules;
  const auto found = std::ranges::find(modules, place.path, &ModuleInfo::path);
  return found == modules.end() ? "" : found->type;
}
std::string type_of(const Registration& at, const RunState& state) {
  return type_of(ModulePlace{at.model, at.module_path}, state);
}

/// Its forward reads what its members hold, and nothing else of their shapes in their place.
bool is_of_torch(const ModulePlace& place, const RunState& state) {
  return type_of(place, state).starts_with("torch::nn::");
}

bool is_like(const TensorState& used, const TensorState& registered, std::int64_t used_in) {
  return used.info.id != registered.info.id && used.info.shape == registered.info.shape &&
         used.info.dtype == registered.info.dtype && used_in > registered.use.last_cycle;
}
bool is_like(const TensorState& used, const TensorState& registered) {
  return is_like(used, registered, used.use.last_cycle);
}

/// A live module of the registered one's type reads this leaf.
bool is_of_type(const TensorState& leaf, const std::string& type, const RunState& state) {
  return !type.empty() && state.loose_module_type(leaf.info.id) == type;
}

/// Nothing registers the module that a whole layer was assigned: as many of its tensors are used as
/// registered ones are not. Else a layer that is never called may stand beside unregistered ones.
const TensorState* of_assigned_layer(const TensorState& registered, const RunState& state) {
  const std::string type = type_of(registered.registrations.front(), state);
  const TensorState* used = nullptr;
  std::ptrdiff_t used_count = 0;
  for (const TensorState* leaf : state.loose_leaves()) {
    if (!is_like(*leaf, registered) || !is_of_type(*leaf, type, state)) continue;
    used = leaf;
    ++used_count;
  }
  if (used == nullptr) return nullptr;
  const auto unused_count = std::ranges::count_if(state.tensors().all(), [&](const auto& entry) {
    const TensorState& tensor = entry.second;
    return !tensor.registrations.empty() && !tensor.is_buffer && is_like(*used, tensor) &&
           type_of(tensor.registrations.front(), state) == type;
  });
  return used_count == unused_count ? used : nullptr;
}

/// What a view lies in, as the weight of a linear layer that is read transposed.
const TensorState* whole_leaf(TensorId id, const RunState& state) {
  const TensorState* leaf = state.tensor(state.trace().leaf_behind(id));
  return leaf == nullptr || leaf->info.view_of == 0 ? leaf : state.tensor(leaf->info.view_of);
}

std::optional<ModulePlace> place_of(const OpEvent& event, const RunState& state) {
  if (const ModulePlace* place = state.place_of(event.module)) return *place;
  // The forward of LibTorch's norms is not seen: what they read of their own tells them.
  if (event.op.find("batch_norm") == std::string::npos) return std::nullopt;
  for (const TensorId input : event.inputs) {
    const TensorState* own = state.tensor(input);
    if (own == nullptr || own->registrations.empty()) continue;
    const Registration& at = own->registrations.front();
    return ModulePlace{at.model, at.module_path};
  }
  return std::nullopt;
}
}  // namespace

void Substitutions::add(const OpEvent& event, const RunState& state) {
  if (event.in_backward || !event.grad_mode) return;
  const std::optional<ModulePlace> place = place_of(event, state);
  if (!place.has_value()) return;
  Leaves& leaves = read_in_[{place->model, place->path}];
  for (const TensorId input : event.inputs) {
    const TensorState* leaf = whole_leaf(input, state);
    if (leaf == nullptr || !leaf->info.is_leaf) continue;
    if (leaf->is_buffer) buffers_read_[leaf->info.id] = event.at.cycle;
    const bool may_stand_in =
        leaf->info.requires_grad || (leaf->registrations.empty() && is_of_torch(*place, state));
    if (!may_stand_in) continue;
    const bool is_own = std::ranges::any_of(leaf->registrations, [&place](const Registration& at) {
      return at.model == place->model && lies_in(at.module_path, place->path);
    });
    if (!is_own) leaves[leaf->info.id] = event.at.cycle;
  }
}

const TensorState* Substitutions::find(const TensorState& registered, const RunState& state) const {
  const Registration& at = registered.registrations.front();
  const auto read = read_in_.find({at.model, at.module_path});
  if (read != read_in_.end()) {
    const TensorState* last = nullptr;  // a member may be another tensor in each cycle
    std::int64_t last_read = 0;
    for (const auto& [id, cycle] : read->second) {
      const TensorState* leaf = state.tensor(id);
      if (leaf == nullptr || !is_like(*leaf, registered, cycle)) continue;
      if (last == nullptr || cycle > last_read) last = leaf;
      last_read = std::max(last_read, cycle);
    }
    if (last != nullptr) return last;
  }
  if (state.several_threads_train()) return nullptr;  // another one's model is as likely
  // It may have run until it was replaced.
  if (read != read_in_.end()) return of_assigned_layer(registered, state);
  // The forward of the module is not seen: what is used next to its parts is taken for its own.
  for (const TensorState* leaf : state.loose_leaves()) {
    if (!leaf->use.common_path.has_value() || !is_like(*leaf, registered)) continue;
    const std::string& near = *leaf->use.common_path;
    if (near == at.module_path || parent_of(near) == at.module_path) return leaf;
  }
  return of_assigned_layer(registered, state);
}

const TensorState* Substitutions::find_for_buffer(const TensorState& buffer, std::int64_t cycle,
                                                  const RunState& state) const {
  const Registration& at = buffer.registrations.front();
  if (!is_of_torch({at.model, at.module_path}, state)) return nullptr;
  const auto own = buffers_read_.find(buffer.info.id);
  const auto read = read_in_.find({at.model, at.module_path});
  if (read == read_in_.end() || (own != buffers_read_.end() && own->second == cycle))
    return nullptr;
  for (const auto& [id, used_in] : read->second) {
    const TensorState* leaf = state.tensor(id);
    if (leaf == nullptr || used_in != cycle || leaf->info.requires_grad) continue;
    if (is_like(*leaf, buffer, used_in)) return leaf;
  }
  return nullptr;
}

}  // namespace ddpscope
