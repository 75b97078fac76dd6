#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "hooks/near_tls.h"
#include "model/collective_event.h"
#include "model/hot_code.h"

namespace c10d {
class Backend;
}

namespace ddpscope {

/// Values that are no tensor, as a library below LibTorch is given them.
struct RawValues {
  const void* at = nullptr;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< 0: not known
  const char* dtype = "";
  std::int64_t list = 1;  ///< calls of one block
};

struct BackendGroup;

/// What a collective was given.
struct CallFacts {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceKind reduce = ReduceKind::kNone;
  std::int32_t root = -1;
  bool coalesced = false;
  bool waits = false;
  std::span<const at::Tensor> tensors;        ///< those of this rank's part
  std::optional<RawValues> raw = {};          ///< or this in their place
  std::span<const at::Tensor> gathered = {};  ///< what an all-gather writes
};

/// One call of a backend: noted before it is issued; what it calls itself is part of it.
class LoggedCall {
 public:
  DDPSCOPE_HOT LoggedCall(const c10d::Backend& backend, const CallFacts& facts) noexcept;
  DDPSCOPE_HOT LoggedCall(BackendGroup& group, const CallFacts& facts) noexcept;
  /// Left by an exception, the call failed.
  DDPSCOPE_HOT ~LoggedCall() noexcept;
  LoggedCall(const LoggedCall&) = delete;
  LoggedCall& operator=(const LoggedCall&) = delete;

  /// Whether the caller is to tell what came of it.
  bool is_outermost() const noexcept { return number_ != 0; }
  DDPSCOPE_HOT void returned(const void* work) noexcept;
  /// The call has ended, or its `Work` says so.
  void ended(bool failed) noexcept;
  /// Whether this thread runs code of the backend: within a call or a wait for one.
  static bool is_inside() noexcept { return depth_ > 0 || waits_ > 0; }

 private:
  friend class CallWait;
  DDPSCOPE_NEAR static inline constinit thread_local int depth_ = 0;
  DDPSCOPE_NEAR static inline constinit thread_local int waits_ = 0;  // calls in them are noted
  DDPSCOPE_NEAR static inline constinit thread_local bool nested_ = false;

  std::uint64_t number_ = 0;
  int exceptions_ = 0;
};

/// One wait for the end of a call, on whatever thread.
class CallWait {
 public:
  DDPSCOPE_HOT explicit CallWait(const void* work) noexcept;
  DDPSCOPE_HOT ~CallWait() noexcept;
  CallWait(const CallWait&) = delete;
  CallWait& operator=(const CallWait&) = delete;

 private:
  std::uint64_t number_ = 0;  ///< 0: not one of a call that was noted
  std::int64_t begin_ns_ = 0;
  int exceptions_ = 0;
};

/// A thread of the backend says that the call of this `Work` has ended.
DDPSCOPE_HOT void call_ended(const void* work, bool failed) noexcept;

/// Called with the backend of each call that the program issues, on its thread; null ends that.
using BackendSeen = void (*)(const c10d::Backend& backend);
void tell_backends(BackendSeen seen) noexcept;

/// Those that the process issued since the count was `told`, which is then the count of now.
IssuedCalls issued_calls_since(std::atomic<std::int64_t>& told) noexcept;

/// The calls of `c10d::ProcessGroupGloo` and, where it is loaded, `ProcessGroupNCCL`.
bool install_collective_watch() noexcept;

/// Groups are often made before the first attach: what tells them apart is seen from the start, and
/// the calls of NCCL and MPI that the program makes itself.
void watch_group_births() noexcept;

}  // namespace ddpscope
