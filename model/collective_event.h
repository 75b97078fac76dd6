#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/autograd_event.h"
#include "model/collective_kind.h"
#include "model/finding.h"
#include "model/recycled_memory.h"
#include "model/short_list.h"
#include "model/tensor_info.h"

namespace ddpscope {

enum class ReduceKind : std::uint8_t {
  kNone,
  kSum,
  kAverage,
  kProduct,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
  kOther,
};

enum class CallState : std::uint8_t { kIssued, kCompleted, kFailed };

/// An index into the names of a rank's ring; 0 is "no name".
using NameId = std::uint32_t;

/// A group's key carries its size: where more ranks than that have a key, several groups do.
constexpr std::uint64_t kGroupSizeMask = (std::uint64_t{1} << 21) - 1;
constexpr std::uint64_t group_key(std::uint64_t hash, std::int64_t size) {
  return (hash & ~kGroupSizeMask) | (static_cast<std::uint64_t>(size) & kGroupSizeMask);
}
constexpr std::int64_t group_size(std::uint64_t key) {
  return static_cast<std::int64_t>(key & kGroupSizeMask);
}

/// What an exchange of a synchronised batch norm is for.
enum class NormPhase : std::uint8_t { kNone, kForward, kBackward, kSecondBackward, kLayers };

/// In a record: phase and number of the call of a layer, from 1; 0 is no such exchange.
constexpr std::uint32_t norm_call(NormPhase phase, std::uint64_t number) {
  return static_cast<std::uint32_t>(number << 3) | static_cast<std::uint32_t>(phase);
}
constexpr NormPhase norm_phase(std::uint32_t call) { return static_cast<NormPhase>(call & 7); }
constexpr std::int64_t norm_number(std::uint32_t call) { return call >> 3; }

/// One collective call as it stands in a rank's ring. Plain bytes of one machine's order.
struct CallRecord {
  std::uint64_t seq = 0;     ///< 1-based, within its group; messages have numbers of their own
  std::uint64_t group = 0;   ///< group_key(); equal on all ranks of the group; 0 is not a group
  std::int64_t unix_ns = 0;  ///< when it was issued
  std::uint64_t elements = 0;
  std::int32_t step = 0;   ///< in progress when it was issued; 0 is before the first
  std::uint32_t list = 1;  ///< tensors in the call
  NameId owner = 0;        ///< of the storage: `conv1.weight`, `conv1.weight.grad` or `bucket`
  NameId module = 0;       ///< in which it was issued
  NameId dtype = 0;
  std::int32_t root = -1;       ///< of a broadcast, a reduction or a gathering to one rank
  std::uint32_t waited_us = 0;  ///< of the caller, inside the call or in wait()
  StackId stack = 0;            ///< at the issue; 0: none was taken
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceKind reduce = ReduceKind::kNone;
  Phase phase = Phase::kInit;
  CallState state = CallState::kIssued;
  std::uint32_t norm_call = 0;  ///< norm_call(); its owner is then the layer
};
static_assert(sizeof(CallRecord) == 72);

/// Tensors of a call that an event names.
constexpr std::size_t kListedTensors = 16;
using ListedIds = ShortList<TensorId, kListedTensors>;

/// A call with what only this rank can tell of its tensors; sent when it is issued.
struct CollectiveEvent {
  Stamp at;
  std::uint64_t seq = 0;
  std::uint64_t group = 0;
  std::int64_t group_size = 0;
  std::string backend;  ///< gloo, nccl or mpi
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ReduceKind reduce = ReduceKind::kNone;
  bool coalesced = false;  ///< each tensor of the list is one of its own
  ListedIds tensors;       ///< 0 where it is not known; a few of a long list
  ListedIds gradients_of;  ///< the parameters whose gradients they are, else 0
  bool averages = false;   ///< a sum over ranks of gradients, or of a buffer of them
  std::int64_t list = 1;   ///< tensors in the call
  std::int64_t distinct_storages = 1;
  std::int64_t devices = 1;
  std::int64_t elements = 0;
  std::int64_t elements_min = 0;  ///< of one tensor of the list
  std::int64_t elements_max = 0;
  std::int64_t bytes = 0;
  bool waits = false;    ///< the caller blocks in it
  bool is_root = false;  ///< this rank is the one of a broadcast
  bool of_norm = false;  ///< an exchange of a synchronised batch norm
  ModuleId module = 0;
  StackId stack = 0;
  /// What an all-gather of values with a gradient path writes, on survey steps; else empty.
  std::vector<TensorId> gathered = {};
  std::int64_t gathered_rows = 0;  ///< of the values of this rank

  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;
};

inline void* CollectiveEvent::operator new(std::size_t) {
  return RecycledMemory<CollectiveEvent>::take();
}
inline void CollectiveEvent::operator delete(void* memory) noexcept {
  RecycledMemory<CollectiveEvent>::give_back(memory);
}

/// How the program used a gradient.
enum class GradientUse : std::uint8_t {
  kRead,
  kWrite,
  kAdd,  ///< by a backward
  kStep,
};

/// A gradient was used between the issue of a call that got it and the wait for that call, by the
/// thread that issued it or by the next backward. Once for each call.
struct PendingUseEvent {
  Stamp at;
  std::uint64_t seq = 0;
  std::uint64_t group = 0;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  GradientUse use = GradientUse::kWrite;
  TensorId parameter = 0;  ///< 0: a buffer of gradients, or one in a long list
  std::string op;          ///< "" in a step or a backward
  StackId issued = 0;
  Doing by;
};

/// The end of a call of which this rank waited.
struct CollectiveEndEvent {
  Stamp at;
  std::uint64_t seq = 0;
  std::uint64_t group = 0;
  double waited_ms = 0;
  bool in_backward = false;
  bool threw = false;
  StackId waited = 0;  ///< of the wait, where the tensors were used before it
};

}  // namespace ddpscope
