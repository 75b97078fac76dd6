#include "checks/tensor_table.h"

#include <algorithm>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxLoose = 16384;

bool must_stay(const TensorState& tensor) {
  return !tensor.registrations.empty() || !tensor.owners.empty() || tensor.reached_steps > 1;
}
}  // namespace

TensorState& TensorTable::introduce(const TensorInfo& info, std::int64_t event_number) {
  TensorState& tensor = get(info.id, event_number);
  note_move(tensor, info.storage);
  tensor.info = info;
  return tensor;
}

TensorState& TensorTable::get(TensorId id, std::int64_t event_number) {
  const auto found = tensors_.find(id);
  if (found != tensors_.end()) return found->second;
  loose_.push_back(id);
  forget_some();
  TensorState& tensor = tensors_[id];
  tensor.info.id = id;
  tensor.first_seen = event_number;
  return tensor;
}

TensorState* TensorTable::find(TensorId id) {
  const auto found = tensors_.find(id);
  return found == tensors_.end() ? nullptr : &found->second;
}

const TensorState* TensorTable::find(TensorId id) const {
  const auto found = tensors_.find(id);
  return found == tensors_.end() ? nullptr : &found->second;
}

TensorId TensorTable::registered_in(std::uint64_t storage) const {
  const auto found = registered_storages_.find(storage);
  return found == registered_storages_.end() ? 0 : found->second;
}

void TensorTable::add_registration(TensorState& tensor, Registration registration,
                                   std::int64_t event_number) {
  if (tensor.registered_at == 0) tensor.registered_at = event_number;
  if (tensor.info.storage != 0) registered_storages_[tensor.info.storage] = tensor.info.id;
  of_model_[registration.model].push_back(tensor.info.id);
  registered_.insert(tensor.info.id);
  tensor.registrations.push_back(std::move(registration));
}

// A program may make models by the thousand: only what this one registers is looked at.
void TensorTable::remove_registrations(ModelId model) {
  const auto held = of_model_.extract(model);
  if (held.empty()) return;
  for (const TensorId id : held.mapped()) {
    const auto found = tensors_.find(id);
    if (found == tensors_.end()) continue;
    TensorState& tensor = found->second;
    const auto is_of_model = [model](const Registration& at) { return at.model == model; };
    const auto place = std::ranges::find_if(tensor.registrations, is_of_model);
    if (place != tensor.registrations.end()) {
      tensor.former_path =
          place->module_path.empty() ? place->name : place->module_path + "." + place->name;
    }
    const auto removed = std::erase_if(tensor.registrations, is_of_model);
    if (removed == 0 || !tensor.registrations.empty()) continue;
    registered_storages_.erase(tensor.info.storage);
    registered_.erase(id);
    loose_.push_back(id);
  }
}

void TensorTable::note_move(TensorState& tensor, std::uint64_t storage) {
  const std::uint64_t before = tensor.info.storage;
  if (before == 0 || storage == 0 || before == storage || tensor.gradients == 0) return;
  tensor.was_moved = true;
  tensor.cycles_kept = 0;
}

void TensorTable::note_storage(TensorState& tensor, std::uint64_t storage) {
  if (storage == 0) return;
  const bool moved = storage != tensor.info.storage;
  note_move(tensor, storage);
  const auto former = registered_storages_.find(tensor.info.storage);
  if (moved && former != registered_storages_.end() && former->second == tensor.info.id) {
    registered_storages_.erase(former);
  }
  tensor.info.storage = storage;
  if (tensor.registrations.empty()) return;
  // A gradient may have been a part of it, or another parameter that moved on.
  const auto known = registered_storages_.try_emplace(storage, tensor.info.id).first;
  if (moved) known->second = tensor.info.id;
}

void TensorTable::note_path(const TensorState& leaf) {
  if (!leaf.use.common_path.has_value()) with_path_.push_back(leaf.info.id);
}

void TensorTable::forget_paths() {
  for (const TensorId id : with_path_) {
    if (TensorState* tensor = find(id)) tensor->use.common_path.reset();
  }
  with_path_.clear();
}

void TensorTable::forget_some() {
  // What must stay leaves the queue, and comes back if it loses its registration.
  while (loose_.size() > kMaxLoose) {
    const auto oldest = tensors_.find(loose_.front());
    loose_.pop_front();
    if (oldest != tensors_.end() && !must_stay(oldest->second)) tensors_.erase(oldest);
  }
}

}  // namespace ddpscope
