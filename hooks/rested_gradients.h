#pragma once

#include <vector>

#include "hooks/tensor_registry.h"
#include "hooks/zero_gradients.h"
#include "model/collective_event.h"
#include "model/hot_code.h"

namespace ddpscope {

class Capture;

/// The gradients that an optimizer steps with in cycles without passes over values: one of those
/// that a backward reaches last, which whatever is not finite flows to, tells whether to look at
/// the others. One per optimizer, used by the thread that steps.
class RestedGradients {
 public:
  /// A backward begins on this thread, in a cycle that is watched.
  static void see_backward() noexcept;
  /// It has reached a leaf.
  static void arrived(TensorId leaf) noexcept;
  /// A sum of gradients over ranks is about to be issued, in a cycle that is watched.
  static void averaging(Capture& capture, const CollectiveEvent& average);
  /// Its optimizer begins to step its members. In a cycle that is watched: takes those that the
  /// last backward reached.
  DDPSCOPE_HOT void step_begins(Capture& capture, const ParamGroups& groups);

 private:
  static at::Tensor gradient_of(Capture& capture, TensorId leaf, const ParamGroups& groups);
  void take(Capture& capture, const ParamGroups& groups);
  void tell(Capture& capture, const ParamGroups& groups) const;

  std::vector<TensorId> leaves_;  // in the order in which they were reached
  TensorId last_ = 0;             // a small one of the last; 0: none
};

}  // namespace ddpscope
