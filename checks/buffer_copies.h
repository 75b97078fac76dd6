#pragma once

#include <unordered_map>

#include "checks/run_state.h"

namespace ddpscope {

/// Follows what is computed from registered buffers from step to step, to tell a buffer that is
/// read from one whose successor is read instead.
class BufferCopies {
 public:
  void add(const OpEvent& event, const RunState& state);
  /// A later step read a tensor of the buffer's shape that was computed from it, and not the
  /// buffer.
  bool replaced(TensorId buffer) const;

 private:
  std::unordered_map<TensorId, TensorId> copies_;  ///< and the buffer each was computed from
  std::unordered_map<TensorId, std::int64_t> read_step_;
  std::unordered_map<TensorId, std::int64_t> copy_read_step_;
};

}  // namespace ddpscope
