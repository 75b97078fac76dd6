#include "checks/nonfinite_node_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checks/finding_text.h"
#include "checks/nonfinite_text.h"
#include "checks/risky_text.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::string masked_by(TensorId made, const OpTrace& trace) {
  for (const std::size_t number : trace.consumers_of(made)) {
    const std::string& op = trace.records()[number].op;
    if (op == "aten::where" || op == "aten::masked_fill") return op.substr(6);
  }
  return "";
}

// Their slopes are finite everywhere: what they sum up may overflow.
bool is_sum_of_products(const std::string& op) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"aten::addmm", "aten::baddbmm", "aten::bmm", "aten::convolution", "aten::linear",
       "aten::matmul", "aten::mm", "aten::mv", "aten::dot", "aten::add", "aten::sub", "aten::mul"});
  return std::ranges::find(kNames, op) != kNames.end();
}

// The gradient divides by the differences of the values, or of their squares.
bool is_decomposition(const std::string& op) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"aten::svd", "aten::linalg_svd", "aten::linalg_eig", "aten::linalg_eigh"});
  return std::ranges::find(kNames, op) != kNames.end();
}

// Of finite gradients and a finite input the layer itself makes no NaN.
bool is_of_other_ranks(const NonfiniteNodeEvent& node) {
  return node.op == kSyncBatchNorm && node.returned.nan_count > 0;
}
}  // namespace

namespace {
/// The name of a `torch::autograd::Function` of the program; empty for other nodes.
std::string_view own_function(const NonfiniteNodeEvent& node) {
  constexpr std::string_view kBegin = "torch::autograd::CppNode<";
  std::string_view name = node.node;
  if (!name.starts_with(kBegin) || !name.ends_with('>') || node.op == kSyncBatchNorm) return "";
  name.remove_prefix(kBegin.size());
  name.remove_suffix(1);
  return name;
}
}  // namespace

Finding error_in_backward(const Stamp& at) {
  Finding finding;
  finding.severity = Severity::kError;
  finding.phase = Phase::kBackward;
  finding.step = at.step;
  return finding;
}

std::string slope_text(const NonfiniteNodeEvent& node, const RiskyInputEvent* risky,
                       const RunState& state) {
  if (is_of_other_ranks(node)) {
    return "the gradient that other ranks gave the layer was not finite: its backward sums over "
           "all";
  }
  if (is_sum_of_products(node.op) && risky == nullptr) {
    std::string text = "it sums up finite products, over the rows of the batch for a parameter";
    if (node.incoming_absmax.has_value()) {
      text +=
          fmt::format(", of incoming gradients of {} at most", number_text(*node.incoming_absmax));
    }
    return text + ": the sum is larger than its dtype holds";
  }
  if (const std::string_view own = own_function(node); !own.empty() && risky == nullptr) {
    return fmt::format("backward() of {} returned it where it was given finite gradients", own);
  }
  if (is_decomposition(node.op) && risky == nullptr) {
    return "its gradient divides by the differences of singular values or eigenvalues, which are 0 "
           "where two are equal, as of a matrix of lower rank";
  }
  const std::string mask = masked_by(node.made, state.trace());
  std::string text = fmt::format("the slope of {} is not finite at what it read", node.op);
  if (risky != nullptr) {
    text = "the forward " + edge_text(*risky, "was");
  } else if (node.saved_known) {
    text = fmt::format("the smallest element that {} read or returned in forward was {}", node.op,
                       number_text(node.saved_min));
  }
  if (!mask.empty()) text += fmt::format(" and `{}` masks the value, not the slope", mask);
  return text;
}

std::string turns_text(const NonfiniteNodeEvent& node) {
  if (node.returned.elements == 0) {
    return "gradient turns NaN here, as the anomaly mode of LibTorch says";
  }
  return fmt::format(
      "gradient turns {} here, {} of {} elements; the loss and the incoming "
      "gradient are finite",
      kind_of(node.returned), node.returned.nan_count + node.returned.inf_count,
      node.returned.elements);
}

std::vector<Fix> slope_fixes(const NonfiniteNodeEvent& node) {
  if (is_of_other_ranks(node)) {
    return {
        {"look at the rank that sent it: its loss and what runs after this layer", kNeedsDecision}};
  }
  if (is_sum_of_products(node.op)) {
    return {{"average the loss over the rows of the batch, or scale it down", kLikely},
            {"in float16, which ends at 65504, run it in float32 or bfloat16", kLikely}};
  }
  if (const std::string_view own = own_function(node); !own.empty()) {
    return {{fmt::format("look at what backward() of {} divides by, or takes a root or logarithm "
                         "of, and limit it there",
                         own),
             kLikely},
            {"compare it with finite differences in float64 at this input", kNeedsDecision}};
  }
  if (is_decomposition(node.op)) {
    return {{"keep the values apart before it, as by a small diagonal matrix of different numbers",
             kLikely},
            {"let the loss depend on the values alone, or on what is the same for any choice of "
             "the vectors",
             kNeedsDecision}};
  }
  const bool is_log = node.op.starts_with("aten::log") && !node.op.ends_with("softmax");
  std::vector<Fix> fixes = {
      {is_log ? "clamp before the operator: `p.clamp_min(eps).log()` with eps of at least the "
                "smallest normal number of the dtype"
              : "clamp before the operator, to where its slope is finite",
       kLikely},
      {"replace the masked input before the operator, not its result after", kLikely}};
  if (is_log) fixes.push_back({"log_softmax instead of log(softmax)", kLikely});
  return fixes;
}

}  // namespace ddpscope
