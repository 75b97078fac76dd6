#include "ops/traced.h"

namespace ddpscope::ops {

bool is_traced(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kWrappers({c10::DispatchKey::Python,
                                           c10::DispatchKey::Functionalize,
                                           c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.defined() && (tensor.is_meta() || tensor.key_set().has_any(kWrappers));
}

}  // namespace ddpscope::ops
