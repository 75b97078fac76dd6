#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <optional>
#include <string>

#include "hooks/op_inputs.h"
#include "model/value_event.h"

namespace ddpscope {

/// Operators of surveys that can make NaN or Inf of finite numbers, and whose results need no
/// gradient, as a logarithm of targets: autograd keeps neither them nor what they read. What is
/// computed from their results is followed to where it enters a gradient path.
class DataMakers {
 public:
  struct Maker {
    std::string op;
    ValueRange values;  ///< of its result
    ValueRange inputs;
    TensorInfo output;  ///< this and the next are known where the result was not finite
    Doing by;
  };
  /// What is known when an operator begins.
  struct Begun {
    std::shared_ptr<const Maker> carried;  ///< made something that it reads
    bool can_make = false;
    std::optional<ValueRange> inputs = {};  ///< of one that writes into what it reads
    bool matters() const { return can_make || carried != nullptr; }
  };

  /// Before an operator that the program calls.
  static Begun begin(Capture& capture, const at::RecordFunction& function);
  /// After it; `inputs`: what it read.
  static void end(Capture& capture, const at::RecordFunction& function, const Begun& begun,
                  const WeakInputs& inputs);
  /// Where the source of `event` was made by one of them, that is the origin instead. Where its
  /// making was not seen, those that did so before are the candidates.
  static void explain(Capture& capture, NonfiniteOutputEvent& event);
};

}  // namespace ddpscope
