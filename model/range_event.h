#pragma once

#include <optional>
#include <string>

#include "model/autograd_event.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// An operator was given values that it does not accept: looked at before it ran, on the CPU, in
/// every step; level values.
struct OutOfRangeEvent {
  Stamp at;
  std::string op;
  ModuleId module = 0;
  std::string argument;  ///< target, index or input
  TensorInfo tensor;
  std::int64_t judged_count = 0;  ///< elements, without the ignored ones
  std::int64_t offenders_count = 0;
  std::int64_t nan_count = 0;    ///< of these
  std::int64_t first_index = 0;  ///< of the first one, counted along rows
  double minimum = 0;            ///< of the judged elements that are numbers
  double maximum = 0;
  double allowed_min = 0;
  std::optional<double> allowed_max = {};
  std::optional<std::int64_t> ignore_index = {};
  StackId stack = 0;
};

/// What a loss that normalizes its input was given; CPU, survey steps, level values.
struct LossInputEvent {
  Stamp at;
  TensorId input = 0;
  double minimum = 0;
  double maximum = 0;
};

/// The losses over class labels, as means over the valid ones, that a thread computed since its
/// last backward; sent when the next one begins. Where ranks are compared, of labels on the CPU,
/// level values.
struct LossTargetsEvent {
  Stamp at;
  const char* op = "";  ///< of the first loss, as module and classes
  ModuleId module = 0;
  std::int64_t classes = 0;
  std::int64_t losses = 0;
  std::int64_t targets = 0;  ///< valid ones, of all losses
  bool is_root = false;      ///< backward begins at such a loss: no operator weighs it
};

}  // namespace ddpscope
