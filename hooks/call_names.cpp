#include "hooks/call_names.h"

#include "hooks/capture.h"
#include "hooks/gradient_table.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxNamed = 1 << 18;  // of models that come and go

/// The leaf of this slot, if its gradient lies there now; else undefined.
DDPSCOPE_HOT at::Tensor leaf_with_gradient_at(Capture& capture, const TensorSlot* slot,
                                              const void* values) {
  at::Tensor leaf = slot == nullptr ? at::Tensor() : capture.tensors().lock(*slot);
  if (!leaf.defined() || !leaf.is_leaf()) return {};
  const at::Tensor& gradient = leaf.grad();
  const bool is_there = gradient.defined() && values_of(*gradient.unsafeGetTensorImpl()) == values;
  return is_there ? leaf : at::Tensor();
}

struct Trainable {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
};

/// What each module trains, with all below it; the root has no path.
std::unordered_map<std::string, Trainable> trainable_of(const TreeEvent& tree) {
  std::unordered_map<std::string, Trainable> modules;
  for (const RegisteredTensor& one : tree.tensors) {
    if (one.is_buffer || !one.tensor.requires_grad) continue;
    for (std::string path = one.module_path;; path.resize(path.rfind('.'))) {
      Trainable& module = modules[path];
      ++module.tensors;
      module.elements += one.tensor.elements;
      if (path.find('.') == std::string::npos) break;
    }
    if (one.module_path.empty()) continue;
    Trainable& root = modules[""];
    ++root.tensors;
    root.elements += one.tensor.elements;
  }
  return modules;
}
}  // namespace

void CallNames::tree_told(const TreeEvent& tree) {
  const std::lock_guard lock(mutex_);
  if (tensors_.size() > kMaxNamed) tensors_.clear();
  if (by_values_.size() > kMaxNamed) by_values_.clear();
  if (modules_.size() > kMaxNamed) modules_.clear();
  if (of_modules_.size() > kMaxNamed) of_modules_.clear();
  for (const auto& [path, module] : trainable_of(tree)) {
    if (module.tensors > 1) of_modules_.insert(module.elements);
    if (path.empty() && module.elements > trainable_) trainable_ = module.elements;
  }
  for (const RegisteredTensor& one : tree.tensors) {
    std::string path = one.module_path.empty() ? one.name : one.module_path + "." + one.name;
    tensors_.try_emplace(one.tensor.id, Named{.path = std::move(path)});
  }
  for (const ModuleInfo& module : tree.modules) {
    const auto known = modules_.find(module.id);
    if (known != modules_.end() && known->second.path == module.path) continue;
    modules_.insert_or_assign(module.id, Named{.path = module.path});
  }
}

void CallNames::lies_at(TensorId id, const at::Tensor& tensor) {
  const void* const values = values_of(*tensor.unsafeGetTensorImpl());
  seen_.add(tensor.unsafeGetTensorImpl());
  seen_.add(values);
  const std::lock_guard lock(mutex_);
  if (values != nullptr) by_values_.insert_or_assign(values, id);
}

NameId CallNames::name_of(CallLog& log, TensorId id) {
  const std::lock_guard lock(mutex_);
  const auto known = tensors_.find(id);
  if (known == tensors_.end()) return 0;
  Named& named = known->second;
  if (named.own == 0) named.own = log.name(named.path);
  return named.own;
}

NameId CallNames::name_of_gradient(CallLog& log, TensorSlot& slot) {
  NameId name = slot.gradient_name.load(std::memory_order_relaxed);
  if (name != 0) return name;
  const std::lock_guard lock(mutex_);
  const auto known = tensors_.find(slot.id.load(std::memory_order_relaxed));
  if (known == tensors_.end()) return 0;
  name = log.name(known->second.path + ".grad");
  slot.gradient_name.store(name, std::memory_order_relaxed);
  return name;
}

TensorId CallNames::registered_as(Capture& capture, const at::Tensor& tensor, const void* values) {
  const bool may_be_object = seen_.may_have(tensor.unsafeGetTensorImpl());
  const TensorSlot* const slot = may_be_object ? capture.tensors().known(tensor) : nullptr;
  if (slot != nullptr) {
    const TensorId id = slot->id.load(std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (tensors_.contains(id)) return id;
  }
  return registered_at(capture, values);
}

TensorId CallNames::registered_at(Capture& capture, const void* values) {
  if (values == nullptr || !seen_.may_have(values)) return 0;
  TensorId id = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto there = by_values_.find(values);
    if (there == by_values_.end()) return 0;
    id = there->second;
  }
  const at::Tensor alive = capture.tensors().tensor(id);
  const bool is_there = alive.defined() && values_of(*alive.unsafeGetTensorImpl()) == values;
  return is_there ? id : 0;
}

bool CallNames::is_bucket(std::int64_t elements) {
  const std::int64_t trainable = trainable_.load(std::memory_order_relaxed);
  if (trainable == 0) return false;
  if (elements >= std::min(trainable / 8 + 1, kBucketElements)) return true;
  const std::lock_guard lock(mutex_);
  return of_modules_.contains(elements);
}

CallOwner CallNames::owner_of(Capture& capture, const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return owner(capture, &tensor, values_of(impl), impl.numel());
}

CallOwner CallNames::owner_at(Capture& capture, const void* values, std::int64_t elements) {
  return owner(capture, nullptr, values, elements);
}

CallOwner CallNames::owner(Capture& capture, const at::Tensor* tensor, const void* values,
                           std::int64_t elements) {
  CallLog* const log = capture.options().calls;
  TensorSlot* const slot = gradient_table().find(values);
  if (const at::Tensor leaf = leaf_with_gradient_at(capture, slot, values); leaf.defined()) {
    // One that begins where a flat buffer begins is not what the buffer is of.
    const bool is_part = leaf.numel() < elements;
    const auto name = [&] { return is_part ? bucket(*log) : name_of_gradient(*log, *slot); };
    return {.name = log == nullptr ? 0 : name(),
            .gradient_of = is_part ? 0 : slot->id.load(std::memory_order_relaxed)};
  }
  const TensorId id =
      tensor != nullptr ? registered_as(capture, *tensor, values) : registered_at(capture, values);
  const at::Tensor holder = id == 0 ? at::Tensor() : capture.tensors().tensor(id);
  if (!holder.defined() || holder.numel() < elements) return {};
  return {.name = log == nullptr ? 0 : name_of(*log, id), .tensor = id};
}

NameId CallNames::module(Capture& capture, ModuleId module) {
  CallLog* const log = capture.options().calls;
  if (log == nullptr || module == 0) return 0;
  const std::lock_guard lock(mutex_);
  const auto known = modules_.find(module);
  if (known == modules_.end()) return 0;
  Named& named = known->second;
  if (named.own == 0) named.own = log->name(named.path);
  return named.own;
}

CallNames& call_names() noexcept {
  static auto* const leaked = new CallNames;
  return *leaked;
}

}  // namespace ddpscope
