#pragma once

#include <optional>
#include <string>

#include "model/collective_kind.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// Names one call stack of this process; 0 is "not recorded".
using StackId = std::uint32_t;

/// Where and when something was done on a training thread.
struct Doing {
  std::int64_t step = 0;
  std::int64_t cycle = 0;
  ModuleId module = 0;
  OptimizerId optimizer = 0;  ///< in whose step; 0 outside of one
  StackId stack = 0;
};

/// A collective that wrote a tensor.
struct WritingCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::uint64_t seq = 0;  ///< of its group
};

/// A write by an operator or a collective that the program called.
struct Write {
  std::string op;  ///< "" of a collective
  Doing by;
  std::optional<WritingCall> call = {};
};

/// Backward asked for a saved tensor that is not what forward saved.
struct StaleSavedEvent {
  Stamp at;
  std::string node;
  TensorInfo tensor;
  std::uint32_t saved_version = 0;
  std::uint32_t found_version = 0;
  bool silent = false;        ///< the versions are equal: LibTorch raises nothing
  bool only_checked = false;  ///< running statistics in training mode: backward never reads them
  bool after_forward = true;  ///< a layer ran between the backward before this one and this one
  std::optional<Doing> saved;
  std::optional<Write> writer;
  std::int64_t writes_since_save = 0;  ///< to this tensor, of those that are remembered
  std::int64_t age_writes = 0;         ///< to any tensor since the save
  /// The log of writes holds none as old as the save.
  bool writer_evicted = false;
  bool rested = false;       ///< some cycles were not watched, to keep to the setting `overhead`
  std::int64_t history = 0;  ///< writes that the log holds
};

/// How autograd regards the tensor that an operator failed to write.
enum class ViewOrigin : std::uint8_t {
  kNone,
  kSingle,
  kMultiOutput,
  kCustomFunction,
  kGradModeOff
};

/// An operator that writes a tensor was left by an exception.
struct FailedWriteEvent {
  Stamp at;
  std::string op;
  TensorInfo tensor;
  Doing by;
  bool grad_mode = true;
  bool requires_grad = false;  ///< the tensor or what it is a view of
  bool of_leaf = false;        ///< the tensor, or what it is a view of, is a leaf
  bool is_view = false;
  TensorInfo base;  ///< of a view; id 0 otherwise
  ViewOrigin origin = ViewOrigin::kNone;
  std::string creator;   ///< the node that made the view, or what it is a part of
  bool of_part = false;  ///< it is a view of one of those that the creator made
  std::int64_t output_index = 0;
  std::int64_t outputs = 0;
  std::optional<Doing> created;
  bool after_empty_guard = false;  ///< grad mode was off just before, for no operator
};

}  // namespace ddpscope
