#include "hooks/backend_groups.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "model/collective_event.h"

namespace ddpscope {
namespace {
constexpr int kMaxStores = 16;

void add_to(std::uint64_t& hash, std::string_view text) {
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  hash *= 0x100000001b3;
}

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
  BackendGroup& group = groups_.emplace_back();
  group.backend = &backend;
  group.size = backend.getSize();
  group.backend_name = backend.getBackendName();
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view part : {std::string_view(group.backend_name),
                                      std::string_view(backend.getGroupUid()), store_name}) {
    add_to(hash, part);
  }
  add_to(hash, std::to_string(group.size));
  add_to(hash, std::to_string(++equal_[hash]));
  group.group = group_key(hash, group.size);
  by_backend_.insert_or_assign(&backend, &group);
  return group;
}

void BackendGroups::born(const c10d::Backend& backend, std::string_view store_name) {
  const std::lock_guard lock(mutex_);
  add(backend, store_name);
}

BackendGroup& BackendGroups::of(const c10d::Backend& backend) {
  const std::lock_guard lock(mutex_);
  const auto known = by_backend_.find(&backend);
  return known == by_backend_.end() ? add(backend, "") : *known->second;
}

BackendGroups& backend_groups() noexcept {
  static auto* const leaked = new BackendGroups;
  return *leaked;
}

}  // namespace ddpscope
