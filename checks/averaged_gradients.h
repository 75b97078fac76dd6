#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checks/run_state.h"

namespace ddpscope {

/// Whether each tensor of the call is known as the gradient of a parameter.
bool names_all_gradients(const CollectiveEvent& event);

/// The parameters whose gradients are summed over ranks, as the calls tell them.
class AveragedGradients {
 public:
  void on(const CollectiveEvent& event);
  void on(const CycleEndEvent& event, const RunState& state);

  bool any() const { return first_step_ > 0; }
  /// What was set up first, in words: parameters, or elements of calls that name none.
  std::string extent() const;
  std::int64_t first_step() const { return first_step_; }
  /// Whether its gradient was averaged in a cycle after that one.
  bool covered_after(std::int64_t cycle, TensorId parameter) const;
  /// Whether no call after that cycle can have held it: what the calls held is known, was smaller,
  /// or was full without the `new_elements` of gradients that there are since then. Of calls that
  /// sent less than there was before, as compressed ones do, it is not known what they hold.
  bool missed_after(std::int64_t cycle, const TensorState& parameter,
                    std::int64_t new_elements) const;

 private:
  /// The calls of a cycle that hold gradients which they do not name, as flat buckets do.
  struct Unnamed {
    std::int64_t largest = 0;    ///< elements of one call
    std::int64_t elements = 0;   ///< of all
    std::int64_t gradients = 0;  ///< elements that no other call held; 0 until the cycle ends
  };

  static bool holds_all(const Unnamed& unnamed);
  static bool has_room(const Unnamed& unnamed, std::int64_t elements, std::int64_t new_elements);

  std::map<TensorId, std::int64_t> last_cycles_;
  std::map<std::int64_t, Unnamed> unnamed_;  ///< by cycle; of the last ones
  std::int64_t first_step_ = 0;
};

}  // namespace ddpscope
