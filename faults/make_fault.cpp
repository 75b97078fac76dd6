#include "faults/fault.h"

namespace ddpscope {

std::unique_ptr<Fault> make_fault(std::string_view wanted) {
#define DDPSCOPE_FAULT(name, cpp_name, ...) \
  if (wanted == name) return make_##cpp_name();
#include "model/faults.def"
#undef DDPSCOPE_FAULT
#undef DDPSCOPE_RANK_FAULT
  return nullptr;
}

}  // namespace ddpscope
