#include "checks/repetitions.h"

#include <algorithm>

#include "checks/subtree.h"

namespace ddpscope {

std::string path_in(const std::string& module, const std::string& name) {
  return module.empty() || name.empty() ? module + name : module + "." + name;
}

void Repetitions::add(const TensorState& tensor, std::int64_t times,
                      const std::vector<const TensorState*>& others) {
  Registration place{.name = tensor_path(tensor)};
  if (!tensor.registrations.empty()) place = tensor.registrations.back();
  Repeated& repeated = by_module_[{place.model, place.module_path}];
  repeated.place = place;
  repeated.names.push_back(place.name);
  repeated.times = std::max(repeated.times, times);
  for (const Registration& at : tensor.registrations) {
    repeated.paths.insert(path_in(at.module_path, at.name));
  }
  for (const TensorState* other : others) repeated.paths.insert(tensor_path(*other));
}

}  // namespace ddpscope
