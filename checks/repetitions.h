#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// Tensors of one module that stand in a list more than once, and what the report says of them.
struct Repeated {
  Registration place;
  std::vector<std::string> names;
  std::set<std::string> paths;
  std::int64_t times = 0;
};

std::string path_in(const std::string& module, const std::string& name);

/// Collects repeated tensors by the module that registers them last.
class Repetitions {
 public:
  /// `others`: tensors over the same memory.
  void add(const TensorState& tensor, std::int64_t times,
           const std::vector<const TensorState*>& others);
  const std::map<std::pair<ModelId, std::string>, Repeated>& by_module() const {
    return by_module_;
  }

 private:
  std::map<std::pair<ModelId, std::string>, Repeated> by_module_;
};

}  // namespace ddpscope
