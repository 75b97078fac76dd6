#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>

#include "model/autograd_event.h"
#include "model/collective_kind.h"

namespace ddpscope {

struct Bytes {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// A collective for which nobody has waited yet.
struct PendingCall {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  StackId issued = 0;
  std::uint64_t thread = 0;
  TensorId parameter = 0;
  bool in_order = false;    ///< the calls of its group end in the order of their numbers
  bool told = false;        ///< that what it was given was used
  bool is_earlier = false;  ///< than the backward that runs or ran last
};

/// Such calls by the memory that they were given; one that is given memory again takes the place of
/// the earlier one.
class PendingCalls {
 public:
  static constexpr std::size_t kMost = 16384;

  void add(const Bytes& bytes, const PendingCall& call) {
    const std::lock_guard lock(mutex_);
    if (bytes.begin == bytes.end || by_begin_.size() >= kMost) return;
    by_begin_.insert_or_assign(bytes.begin, Given{.end = bytes.end, .call = call});
  }

  std::optional<PendingCall> find(const Bytes& bytes) {
    if (bytes.begin == bytes.end) return std::nullopt;
    const std::lock_guard lock(mutex_);
    auto next = by_begin_.lower_bound(bytes.end);
    if (next == by_begin_.begin()) return std::nullopt;
    const Given& found = std::prev(next)->second;
    return found.end <= bytes.begin ? std::nullopt : std::optional(found.call);
  }

  /// The program waited for it, and where calls end in order for those before it. True where what
  /// one of them was given had been used before.
  bool end(std::uint64_t group, std::uint64_t seq) {
    const std::lock_guard lock(mutex_);
    bool told = false;
    std::erase_if(by_begin_, [&](const auto& one) {
      const PendingCall& call = one.second.call;
      const bool has_ended = call.in_order ? call.seq <= seq : call.seq == seq;
      const bool is_its = has_ended && call.group == group;
      told |= is_its && call.told;
      return is_its;
    });
    return told;
  }

  void mark_told(std::uint64_t group, std::uint64_t seq) {
    const std::lock_guard lock(mutex_);
    for (auto& [begin, given] : by_begin_) {
      given.call.told |= given.call.seq == seq && given.call.group == group;
    }
  }

  void backward_begins() {
    const std::lock_guard lock(mutex_);
    std::erase_if(by_begin_, [](const auto& one) { return one.second.call.is_earlier; });
    for (auto& [begin, given] : by_begin_) given.call.is_earlier = true;
  }

  bool empty() {
    const std::lock_guard lock(mutex_);
    return by_begin_.empty();
  }

 private:
  struct Given {
    std::uintptr_t end = 0;
    PendingCall call;
  };

  std::mutex mutex_;
  std::map<std::uintptr_t, Given> by_begin_;
};

}  // namespace ddpscope
