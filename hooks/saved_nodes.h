#pragma once

#include <optional>

#include "hooks/packed_doing.h"
#include "hooks/shared_slots.h"

namespace ddpscope {

/// A node of the graph: the thread that made it, numbered from 1, and its number on that thread.
struct NodeKey {
  std::uint64_t thread = 0;
  std::uint64_t sequence = 0;
};

/// When and where a node was made.
struct NodeBirth {
  std::uint64_t next_write = 0;  ///< the number of the first write that came after it
  PackedDoing by;
};

/// The births of the newest nodes; one that a newer node has displaced is not found.
class SavedNodes {
 public:
  explicit SavedNodes(std::size_t history) : slots_(history) {}

  bool has(const NodeKey& key) const noexcept { return slots_.has(index(key), packed(key)); }
  void put(const NodeKey& key, const NodeBirth& birth) noexcept {
    slots_.put(index(key), packed(key), birth);
  }
  std::optional<NodeBirth> find(const NodeKey& key) const noexcept {
    return slots_.find(index(key), packed(key));
  }

 private:
  static std::uint64_t packed(const NodeKey& key) noexcept {
    return (key.thread << 44) ^ key.sequence;
  }
  static std::uint64_t index(const NodeKey& key) noexcept {
    constexpr std::uint64_t kApart = 7919;  // threads that build the same model do not collide
    return key.sequence + key.thread * kApart;
  }

  SharedSlots<NodeBirth> slots_;
};

}  // namespace ddpscope
