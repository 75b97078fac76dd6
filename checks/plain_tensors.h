#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Finds the tensors that a forward reads between two registered layers of one step: neither what
/// enters the first layer (inputs), nor what meets the last output (targets).
class PlainTensors {
 public:
  struct Use {
    std::string op;
    std::string path;
    bool written = false;
    bool confirmed = false;         ///< a registered layer read what it was combined into
    bool is_input = false;          ///< it was read without anything computed from the model
    TensorId read = 0;              ///< itself, or a view of it
    std::int64_t offset_bytes = 0;  ///< of what was read, in its storage
  };

  void add(const OpEvent& event, const RunState& state);
  /// What this step read so; starts anew.
  std::unordered_map<TensorId, Use> take();

 private:
  void note_writes(const OpEvent& event, const RunState& state);
  Use& use_of(TensorId id, TensorId read, const OpEvent& event, const RunState& state);

  std::int64_t step_ = -1;
  std::set<TensorId> computed_;  ///< from registered parameters
  std::unordered_map<TensorId, std::set<TensorId>> combined_;
  std::unordered_map<TensorId, Use> uses_;
};

}  // namespace ddpscope
