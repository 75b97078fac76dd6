#pragma once

#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

/// A tensor that capture meets for the first time.
struct TensorEvent {
  Stamp at;
  TensorInfo tensor;
};

/// One operator of a survey step, in the order in which operators ended on their thread.
struct OpEvent {
  Stamp at;
  std::string op;
  ModuleId module = 0;
  bool grad_mode = true;
  bool in_backward = false;
  std::vector<TensorId> inputs;
  std::vector<TensorInfo> outputs;
};

}  // namespace ddpscope
