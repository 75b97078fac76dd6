#include "hooks/hook_rest.h"

#include <algorithm>

namespace ddpscope {
namespace {
void exchange(void** slot, void* from, void* to) noexcept {
  const std::atomic_ref<void*> target(*slot);
  if (target.load(std::memory_order_relaxed) == from) target.compare_exchange_strong(from, to);
}
}  // namespace

void HookGroup::add(const HookedSlot& hooked) noexcept {
  if (hooked.slot == nullptr || hooked.at_rest == nullptr) return;
  const std::lock_guard lock(adding_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  const auto end = hooks_.begin() + static_cast<std::ptrdiff_t>(count);
  if (std::ranges::find(hooks_.begin(), end, hooked.slot, &HookedSlot::slot) != end) return;
  if (count == kMost) return;
  hooks_[count] = hooked;
  count_.store(count + 1, std::memory_order_release);
}

template <class Exchange>
void HookGroup::for_each(Exchange&& exchange) noexcept {
  const std::size_t count = count_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) exchange(hooks_[i]);
}

void HookGroup::rest() noexcept {
  for_each([](const HookedSlot& at) { exchange(at.slot, at.hook, at.at_rest); });
}

void HookGroup::wake() noexcept {
  for_each([](const HookedSlot& at) { exchange(at.slot, at.at_rest, at.hook); });
}

HookGroup& cycle_hooks() noexcept {
  static constinit HookGroup group;
  return group;
}

HookGroup& operator_hooks() noexcept {
  static constinit HookGroup group;
  return group;
}

}  // namespace ddpscope
