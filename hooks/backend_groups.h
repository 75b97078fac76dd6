#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "model/hot_code.h"
namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace ddpscope {

/// The collectives of one backend object, or of a communicator of a library below LibTorch.
struct BackendGroup {
  std::uint64_t group = 0;  ///< equal on all its ranks
  std::int64_t size = 1;
  std::int32_t rank = -1;    ///< of this process in it; -1: not known
  std::string backend_name;  ///< gloo, nccl or mpi
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> messages{0};  ///< from rank to rank: not all ranks take part
};

/// A communicator that the program made itself.
struct Communicator {
  const void* address = nullptr;
  std::string_view backend;  ///< nccl or mpi
  std::int64_t size = 1;
  std::int32_t rank = -1;
  std::uint64_t identity = 0;  ///< the same on all its ranks
};

/// Gives each backend object a number that all ranks of its group give it, without asking them:
/// from its kind, its size, the name that the program gave it, the prefixes of its store, and which
/// of those that are equal in all this it is on this process. Never frees a group.
class BackendGroups {
 public:
  /// A backend was constructed there over a store that `store_name` tells.
  void born(const c10d::Backend& backend, std::string_view store_name);
  DDPSCOPE_HOT BackendGroup& of(const c10d::Backend& backend);
  BackendGroup& born(const Communicator& communicator);
  /// Null: not met yet.
  BackendGroup* find(const void* communicator);
  void gone(const void* communicator) noexcept;

 private:
  BackendGroup& add(const c10d::Backend& backend, std::string_view store_name);
  BackendGroup& add(const Communicator& communicator);

  std::atomic<std::uint64_t> changes_ = 0;  // of what lies at which address
  std::mutex mutex_;
  std::deque<BackendGroup> groups_;
  std::unordered_map<const void*, BackendGroup*> by_address_;
  std::unordered_map<std::uint64_t, std::uint64_t> equal_;
};

DDPSCOPE_HOT BackendGroups& backend_groups() noexcept;

/// What of a store is equal on all ranks that share it: `2/0/@29500`.
std::string name_of(c10d::Store* store);

}  // namespace ddpscope
