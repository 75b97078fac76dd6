#include "checks/replaced_cycles.h"

#include <algorithm>
#include <utility>

namespace ddpscope {
namespace {
constexpr std::int64_t kReplacedCycles = 3;
}  // namespace

bool is_reached(const TensorState& tensor, std::int64_t cycle) {
  return tensor.gradient_cycle == cycle || tensor.undefined_cycle == cycle;
}

// Another one in each cycle counts where an optimizer has stepped the registered one meanwhile:
// weights that are adapted within a cycle start from that, and read it.
bool ReplacedCycles::see(const TensorState& tensor, const TensorState* used, std::int64_t cycle,
                         const RunState& state) {
  if (used == nullptr) {
    const bool surveyed = state.trace().last_surveyed_cycle() == cycle;
    if (surveyed || is_reached(tensor, cycle)) cycles_.erase(tensor.info.id);
    return false;
  }
  Cycles& cycles = cycles_[tensor.info.id];
  const bool is_new = std::exchange(cycles.used, used->info.id) != used->info.id;
  if (is_new && !is_stepped(tensor)) cycles.count = 0;
  return ++cycles.count == kReplacedCycles;
}

bool ReplacedCycles::is_stepped(const TensorState& tensor) const {
  return std::ranges::any_of(tensor.owners, [&](OptimizerId id) { return stepped_.contains(id); });
}

}  // namespace ddpscope
