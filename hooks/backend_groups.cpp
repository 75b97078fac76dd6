#include "hooks/backend_groups.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "hooks/near_tls.h"
#include "model/collective_event.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
constexpr int kMaxStores = 16;

/// What this thread asked for last.
struct LastMet {
  const void* backend = nullptr;
  BackendGroup* group = nullptr;
  std::uint64_t changes = 0;
};
DDPSCOPE_NEAR constinit thread_local LastMet last_met;

struct Prefix : c10d::PrefixStore {
  static const std::string& of(const c10d::PrefixStore& store) { return store.*(&Prefix::prefix_); }
};
}  // namespace

std::string name_of(c10d::Store* store) {
  std::string name;
  c10::intrusive_ptr<c10d::Store> below;
  for (int i = 0; i < kMaxStores; ++i) {
    auto* const prefixed = dynamic_cast<c10d::PrefixStore*>(store);
    if (prefixed == nullptr) break;
    name += Prefix::of(*prefixed) + "/";
    below = prefixed->getUnderlyingStore();
    store = below.get();
  }
  const auto* const tcp = dynamic_cast<c10d::TCPStore*>(store);
  return tcp == nullptr ? name : name + "@" + std::to_string(tcp->getPort());
}

BackendGroup& BackendGroups::add(const c10d::Backend& backend, std::string_view store_name) {
  Hash hash;
  hash.add(std::string_view(backend.getGroupUid()));
  hash.add(store_name);
  const std::string name = backend.getBackendName();
  return add({.address = &backend,
              .backend = name,
              .size = backend.getSize(),
              .rank = backend.getRank(),
              .identity = hash.value()});
}

BackendGroup& BackendGroups::add(const Communicator& communicator) {
  BackendGroup& group = groups_.emplace_back();
  group.size = communicator.size;
  group.rank = communicator.rank;
  group.backend_name = communicator.backend;
  Hash hash;
  hash.add(communicator.backend);
  hash.add(communicator.identity);
  hash.add(static_cast<std::uint64_t>(group.size));
  hash.add(std::uint64_t{++equal_[hash.value()]});
  group.group = group_key(hash.value(), group.size);
  by_address_.insert_or_assign(communicator.address, &group);
  changes_.fetch_add(1, std::memory_order_release);
  return group;
}

void BackendGroups::born(const c10d::Backend& backend, std::string_view store_name) {
  const std::lock_guard lock(mutex_);
  add(backend, store_name);
}

BackendGroup& BackendGroups::of(const c10d::Backend& backend) {
  const bool is_last =
      last_met.backend == &backend && last_met.changes == changes_.load(std::memory_order_acquire);
  if (is_last) return *last_met.group;
  const std::lock_guard lock(mutex_);
  const auto known = by_address_.find(&backend);
  BackendGroup& group = known == by_address_.end() ? add(backend, "") : *known->second;
  last_met = {&backend, &group, changes_.load(std::memory_order_relaxed)};
  return group;
}

BackendGroup& BackendGroups::born(const Communicator& communicator) {
  const std::lock_guard lock(mutex_);
  return add(communicator);
}

BackendGroup* BackendGroups::find(const void* communicator) {
  const std::lock_guard lock(mutex_);
  const auto known = by_address_.find(communicator);
  return known == by_address_.end() ? nullptr : known->second;
}

void BackendGroups::gone(const void* communicator) noexcept {
  const std::lock_guard lock(mutex_);
  by_address_.erase(communicator);
  changes_.fetch_add(1, std::memory_order_release);
}

BackendGroups& backend_groups() noexcept {
  static auto* const leaked = new BackendGroups;
  return *leaked;
}

}  // namespace ddpscope
