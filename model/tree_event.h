#pragma once

#include <string>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

struct ModuleInfo {
  ModuleId id = 0;
  std::string path;
  std::string type;
  bool training = true;
};

struct RegisteredTensor {
  std::string module_path;
  std::string name;
  bool is_buffer = false;
  TensorInfo tensor;
};

/// One attached root as it is registered now, in registration order. A module that is registered
/// under two names stands here under both.
struct TreeEvent {
  Stamp at;
  ModelId model = 0;
  std::string label;
  std::string class_name;
  std::vector<ModuleInfo> modules;
  std::vector<RegisteredTensor> tensors;
  bool attached = false;  ///< the program asked for it: this is no look at the end of a step
};

/// The root was detached or has died: its tensors are no longer expected to train.
struct TreeEndEvent {
  Stamp at;
  ModelId model = 0;
  bool died = false;  ///< else the program detached it
};

/// A registered buffer has kept its version for 16 steps since it was last written, or registered.
/// Sent once per such time, at the end of the step.
struct QuietBufferEvent {
  Stamp at;
  TensorId tensor = 0;
};

/// What the user said about a part of a model; contract.md section 2.
struct DeclarationEvent {
  ModelId model = 0;
  std::string path_glob;
  std::string kind;
};

/// A module that ran and is registered below no attached root.
struct LooseModuleEvent {
  Stamp at;
  ModuleId module = 0;
  std::string type;
  bool evaluates = false;  ///< it is in eval mode
  bool is_shared = false;  ///< more than one owner holds it, as of what some module has registered
  std::vector<TensorId> tensors;
};

}  // namespace ddpscope
