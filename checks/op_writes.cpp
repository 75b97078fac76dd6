#include "checks/op_writes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "checks/op_trace.h"

namespace ddpscope {
namespace {
constexpr int kMaxSources = 16;

/// Of `aten::add_` and of `aten::_foreach_add_`.
bool may_average(std::string_view op) {
  constexpr std::array<std::string_view, 4> kAverage = {"add_", "sub_", "lerp_", "copy_"};
  op.remove_prefix(op.rfind(':') + 1);
  if (op.starts_with("_foreach_")) op.remove_prefix(std::string_view("_foreach_").size());
  return std::ranges::find(kAverage, op) != kAverage.end();
}

/// Such return a tensor that has the form of the other already, and that may be the other.
bool takes_a_form(std::string_view op) { return op.ends_with("_as") || op == "aten::to"; }

bool holds(std::span<const TensorId> ids, TensorId id) {
  return std::ranges::find(ids, id) != ids.end();
}
}  // namespace

bool writes_output(std::string_view op, std::span<const TensorId> inputs, std::size_t outputs,
                   TensorId output) {
  if (!holds(inputs, output)) return false;
  if (op.ends_with('_')) return true;
  // Of a program's own, not each that writes says so in its name.
  if (!op.starts_with("aten::")) return inputs.size() > 1;
  // LibTorch's write what is given as `out`: it comes last, after what they read.
  return !takes_a_form(op) && inputs.size() > outputs && holds(inputs.last(outputs), output);
}

TensorId OpTrace::followed_in(const OpEvent& event, std::size_t place,
                              const TensorState& written) const {
  const std::size_t other = event.outputs.size() + place;
  if (!may_average(event.op) || other >= event.inputs.size()) return 0;
  TensorId followed = 0;
  std::vector<TensorId> open = {event.inputs[other]};
  for (int seen = 0; !open.empty(); ++seen) {
    const TensorId id = open.back();
    open.pop_back();
    // Memory that set_data() gave back may hold by now what an operator of this step made, before a
    // backward told where the parameter lives.
    const Record* maker = record_of(id);
    const TensorState* known = maker == nullptr ? tensors_.find(id) : nullptr;
    const TensorState* source =
        registered_behind(id, known == nullptr ? TensorInfo{} : known->info);
    if (source != nullptr && !source->is_buffer) {
      if (source != &written) followed = source->info.id;
      continue;
    }
    if (maker == nullptr || maker->inputs.empty() || seen >= kMaxSources) return 0;
    open.insert(open.end(), maker->inputs.begin(), maker->inputs.end());
  }
  return followed;
}

}  // namespace ddpscope
