#include "checks/gathered_path.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "checks/loss_ops.h"

namespace ddpscope {
namespace {
using TensorIds = std::unordered_set<TensorId>;

// With these the rows of this rank are put back among the others.
constexpr std::array<std::string_view, 7> kJoins = {
    "aten::cat",        "aten::stack",       "aten::copy_",        "aten::index_put_",
    "aten::index_copy", "aten::index_copy_", "aten::slice_scatter"};

/// Follows what was gathered to where it meets values with a gradient.
class GatheredPath {
 public:
  GatheredPath(const std::vector<TensorId>& gathered, const RunState& state)
      : state_(state), plain_(gathered.begin(), gathered.end()) {
    // How they were when an operator read them: a gather that autograd follows gives them a path.
    for (const TensorId id : gathered) {
      const TensorState* tensor = state.tensor(id);
      if (tensor != nullptr && !tensor->info.requires_grad) sure_.insert(id);
    }
  }

  const OpTrace::Record* run() {
    const OpTrace::Record* met = nullptr;
    for (const OpTrace::Record& record : state_.trace().records()) {
      const auto in_plain = [this](TensorId id) { return plain_.contains(id); };
      if (std::ranges::none_of(record.inputs, in_plain)) continue;
      if (std::ranges::any_of(record.outputs, &OpTrace::Output::requires_grad)) {
        const bool joins = std::ranges::find(kJoins, record.op) != kJoins.end();
        if (joins || !reads_gradient_path(record)) return nullptr;
        if (met == nullptr && reads_sure(record)) met = &record;
        continue;
      }
      for (const OpTrace::Output& output : record.outputs) {
        plain_.insert(output.id);
        // With grad mode off, a node may be given to it yet.
        if (record.grad_mode) sure_.insert(output.id);
      }
    }
    return met;
  }

 private:
  bool reads_gradient_path(const OpTrace::Record& record) const {
    return std::ranges::any_of(record.inputs, [this](TensorId id) {
      const auto operand = plain_.contains(id) ? std::nullopt : operand_of(state_, id);
      return operand.has_value() && operand->requires_grad;
    });
  }
  bool reads_sure(const OpTrace::Record& record) const {
    return std::ranges::any_of(record.inputs, [this](TensorId id) { return sure_.contains(id); });
  }

  const RunState& state_;
  TensorIds plain_;  ///< without a gradient path
  TensorIds sure_;   ///< of these, those that get none either
};
}  // namespace

const OpTrace::Record* met_by_gathered(const std::vector<TensorId>& gathered,
                                       const RunState& state) {
  return GatheredPath(gathered, state).run();
}

}  // namespace ddpscope
