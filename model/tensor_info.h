#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddpscope {

/// Names one tensor object for the whole run; never reused. 0 is "no tensor".
using TensorId = std::uint64_t;
/// Names one module object; 0 is "no module known".
using ModuleId = std::uint64_t;
/// Names one optimizer object; 0 is "no optimizer".
using OptimizerId = std::uint64_t;
/// Names one attached root; 0 is "not attached".
using ModelId = std::uint64_t;

/// When something happened on this rank. `step` is 1-based, 0 is before the first.
struct Stamp {
  std::int64_t step = 0;
  std::int64_t cycle = 0;
  std::uint64_t thread = 0;
};

/// The collectives that this process issued in a step, over all its groups.
struct IssuedCalls {
  std::int64_t count = 0;
  std::int64_t last_seq = 0;  ///< of the last one up to the step's end, in its group; 0: none yet
};

/// What is known of a tensor without touching its values.
struct TensorInfo {
  TensorId id = 0;
  std::vector<std::int64_t> shape;
  std::string dtype;  ///< `float16`, as all events name it
  std::string device;
  std::int64_t elements = 0;
  std::uint64_t storage = 0;
  std::int64_t storage_offset_bytes = 0;
  bool requires_grad = false;
  bool is_leaf = false;
  bool floating = false;
  bool alone = false;    ///< no other tensor lay in its memory when it was described
  TensorId view_of = 0;  ///< of an announced leaf without grad; 0: no view
  /// The shape with 1 for each dimension that was expanded; empty if none was.
  std::vector<std::int64_t> unexpanded = {};
};

}  // namespace ddpscope
