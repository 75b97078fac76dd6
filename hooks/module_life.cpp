#include "hooks/module_life.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace ddpscope {
namespace {
using torch::nn::Module;
using Shareable = std::enable_shared_from_this<Module>;

// The standard lets an explicit instantiation name a private member.
struct WeakSelf {
  using Type = std::weak_ptr<Module> Shareable::*;
  friend Type weak_self(WeakSelf);
};
template <class Tag, typename Tag::Type member>
struct Reach {
  friend typename Tag::Type weak_self(Tag) { return member; }
};
template struct Reach<WeakSelf, &Shareable::_M_weak_this>;

// Allocates the control block of a sentinel; its freeing is the news.
using Flag = std::shared_ptr<std::atomic<bool>>;

template <class T>
struct SentinelAllocator {
  using value_type = T;
  Flag planted;

  explicit SentinelAllocator(Flag flag) : planted(std::move(flag)) {}
  template <class U>
  SentinelAllocator(const SentinelAllocator<U>& other) : planted(other.planted) {}  // NOLINT
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept {
    planted->store(false);
    ::operator delete(memory);
  }
  template <class U>
  bool operator==(const SentinelAllocator<U>& other) const {
    return planted == other.planted;
  }
};

// The sentinels that stand, by module: a module has room for one.
struct Standing {
  std::mutex mutex;
  std::unordered_map<const Module*, std::weak_ptr<std::atomic<bool>>> flags;
  std::size_t sweep_at = 1024;
};

Standing& standing() {
  static auto* const leaked = new Standing;
  return *leaked;
}

Flag standing_flag(const Module& module) {
  const auto known = standing().flags.find(&module);
  const Flag flag = known != standing().flags.end() ? known->second.lock() : nullptr;
  return flag != nullptr && flag->load() ? flag : nullptr;
}

void remember_flag(const Module& module, const Flag& flag) {
  auto& flags = standing().flags;
  if (flags.size() >= standing().sweep_at) {
    std::erase_if(flags, [](const auto& entry) { return entry.second.expired(); });
    standing().sweep_at = std::max<std::size_t>(1024, 2 * flags.size());
  }
  flags[&module] = flag;
}
}  // namespace

ModuleLife ModuleLife::of_shared(const std::shared_ptr<Module>& module) {
  ModuleLife life;
  life.weak_ = module;
  return life;
}

ModuleLife ModuleLife::of_object(Module& module) {
  const std::lock_guard lock(standing().mutex);  // two threads plant one sentinel
  if (const std::shared_ptr<Module> owned = module.weak_from_this().lock()) {
    return of_shared(owned);
  }
  ModuleLife life;
  life.object_ = &module;
  life.planted_ = standing_flag(module);
  if (life.planted_ != nullptr) return life;
  life.planted_ = std::make_shared<std::atomic<bool>>(true);
  remember_flag(module, life.planted_);
  const std::shared_ptr<Module> expiring(
      static_cast<Module*>(nullptr), [](Module*) {}, SentinelAllocator<Module>(life.planted_));
  static_cast<Shareable&>(module).*weak_self(WeakSelf{}) = std::weak_ptr<Module>(expiring);
  return life;
}

std::shared_ptr<Module> ModuleLife::lock() const {
  if (planted_ == nullptr) return weak_.lock();
  if (!planted_->load()) return nullptr;
  return {std::shared_ptr<Module>(), object_};
}

bool ModuleLife::is_over() const noexcept {
  return planted_ == nullptr ? weak_.expired() : !planted_->load();
}

}  // namespace ddpscope
