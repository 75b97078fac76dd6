#include "hooks/module_life.h"

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
template <class T>
struct SentinelAllocator {
  using value_type = T;
  std::shared_ptr<std::atomic<bool>> planted;

  explicit SentinelAllocator(std::shared_ptr<std::atomic<bool>> flag) : planted(std::move(flag)) {}
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
}  // namespace

ModuleLife ModuleLife::of_shared(const std::shared_ptr<Module>& module) {
  ModuleLife life;
  life.weak_ = module;
  return life;
}

ModuleLife ModuleLife::of_object(Module& module) {
  if (const std::shared_ptr<Module> owned = module.weak_from_this().lock()) {
    return of_shared(owned);
  }
  ModuleLife life;
  life.object_ = &module;
  life.planted_ = std::make_shared<std::atomic<bool>>(true);
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

}  // namespace ddpscope
