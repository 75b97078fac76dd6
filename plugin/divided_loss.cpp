#include "plugin/divided_loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "checks/loss_ops.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxDivided = 4096;  // of programs that run forward alone

// What a loss goes through once it is divided, in the names of operators without their namespace.
constexpr std::array<std::string_view, 24> kLinear = {
    "add",   "alias",   "cat", "clone", "contiguous", "div",     "expand",   "flatten",
    "index", "mean",    "mul", "neg",   "permute",    "reshape", "select",   "slice",
    "stack", "squeeze", "sub", "sum",   "to",         "view",    "_to_copy", "unsqueeze"};

std::string_view name_of(const OpEvent& event) {
  std::string_view name = event.op;
  if (name.starts_with("aten::")) name.remove_prefix(6);
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool is_same(double number, double other) { return std::abs(number - other) < 1e-6 * number; }

bool may_be_count(TensorId id, const RunState& state) {
  const auto operand = operand_of(state, id);
  return operand.has_value() && !operand->requires_grad && !operand->registered &&
         std::ranges::all_of(operand->shape, [](std::int64_t size) { return size == 1; });
}

// A number that is no tensor is one where it is whole and above the number of ranks, as weights of
// a loss are seldom.
bool divides(const OpEvent& event, double own_rows, const RunState& state) {
  const std::string_view name = name_of(event);
  const double divisor = 1 / event.factor;
  if ((name != "div" && name != "mul") || is_same(divisor, own_rows)) return false;
  if (event.inputs.size() == 1) {
    return name == "div" && is_same(divisor, std::round(divisor)) &&
           divisor > static_cast<double>(state.world_size());
  }
  return std::ranges::any_of(event.inputs, [&](TensorId id) { return may_be_count(id, state); });
}
}  // namespace

// Of a sum all parts that are trained with were divided.
bool DividedLoss::keeps(const OpEvent& event, const RunState& state) const {
  if (divided_.empty() || std::ranges::find(kLinear, name_of(event)) == kLinear.end()) return false;
  const auto is_divided = [&](TensorId id) { return divided_.contains(id); };
  const auto is_divided_or_fixed = [&](TensorId id) {
    if (is_divided(id)) return true;
    const auto operand = operand_of(state, id);
    return operand.has_value() && !operand->requires_grad;
  };
  return std::ranges::any_of(event.inputs, is_divided) &&
         std::ranges::all_of(event.inputs, is_divided_or_fixed);
}

void DividedLoss::on_op(const OpEvent& event, double own_rows, const RunState& state) {
  const bool is_divided = keeps(event, state) || divides(event, own_rows, state);
  if (divided_.size() >= kMaxDivided) divided_.clear();
  for (const TensorInfo& output : event.outputs) {
    if (is_divided) {
      divided_.insert(output.id);
    } else {
      divided_.erase(output.id);  // written in place
    }
  }
}

void DividedLoss::on_backward(const BackwardEvent& event) {
  if (event.surveyed && !event.roots.empty()) {
    is_divided_ = divided_.contains(event.roots.front());
  }
  divided_.clear();
}

}  // namespace ddpscope
