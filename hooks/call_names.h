#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <string>
#include <unordered_map>

#include "model/call_log.h"
#include "model/tree_event.h"

namespace ddpscope {

class Capture;

/// What a tensor in a collective is of.
struct CallOwner {
  NameId name = 0;           ///< in the call log; 0: not known
  TensorId tensor = 0;       ///< of a registered tensor that lies there
  TensorId gradient_of = 0;  ///< of the parameter whose gradient lies there
};

/// Finds the registered tensor, or the gradient of one, whose values a collective reads, and the
/// numbers of their names in the call log. Any thread.
class CallNames {
 public:
  void tree_told(const TreeEvent& tree);
  /// Where a registered tensor lies now.
  void lies_at(TensorId id, const at::Tensor& tensor);
  CallOwner owner_of(Capture& capture, const at::Tensor& tensor);
  NameId module(Capture& capture, ModuleId module);

 private:
  struct Named {
    std::string path;
    NameId own = 0;
    NameId gradient = 0;
  };
  NameId name_of(CallLog& log, TensorId id, bool gradient);
  /// The registered tensor that is this object or has its values there.
  TensorId registered_at(Capture& capture, const at::Tensor& tensor, const void* values);

  std::mutex mutex_;
  std::unordered_map<TensorId, Named> tensors_;
  std::unordered_map<const void*, TensorId> by_values_;
  std::unordered_map<ModuleId, Named> modules_;
};

CallNames& call_names() noexcept;

}  // namespace ddpscope
