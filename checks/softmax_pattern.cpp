#include "checks/softmax_pattern.h"

#include <algorithm>
#include <array>

#include "checks/loss_ops.h"

namespace ddpscope {
namespace {
constexpr std::string_view kLinear = "linear";  // and what else multiplies by weights
constexpr std::array<std::string_view, 7> kLinears = {kLinear, "addmm",   "mm",         "matmul",
                                                      "bmm",   "baddbmm", "convolution"};

constexpr std::array<SoftmaxPattern, 5> kPatterns = {{
    {"softmax", "log_softmax", "softmax_log_softmax", Severity::kWarning,
     "which applies log-softmax again",
     "of values between 0 and 1 the log-probabilities differ by 1 at most: gradients shrink and "
     "the loss stays away from 0",
     "nll_loss on log_softmax"},
    {"sigmoid", "binary_cross_entropy_with_logits", "sigmoid_bce_with_logits", Severity::kWarning,
     "which applies sigmoid again",
     "of values between 0 and 1 the probabilities lie between 0.5 and 0.73: gradients shrink and "
     "the loss stays away from 0",
     "binary_cross_entropy on the probabilities"},
    {"softmax", "nll_loss", "softmax_nll_loss", Severity::kError, "which expects log-probabilities",
     "nll_loss returns the negative of what it is given: here the negative probability",
     "nll_loss on log_softmax"},
    {"log_softmax", "log_softmax", "log_softmax_twice", Severity::kNote,
     "which applies log-softmax again", "the second one changes nothing and costs a pass",
     "leave one of them out"},
    {kLinear, "nll_loss", "logits_nll_loss", Severity::kError, "which expects log-probabilities",
     "nll_loss returns the negative of what it is given: logits are not normalised, and the loss "
     "falls without end as they grow",
     "cross_entropy in place of nll_loss, or log_softmax before it"},
}};
constexpr SoftmaxPattern kClampedLogits = {
    "relu",
    "log_softmax",
    "relu_cross_entropy",
    Severity::kNote,
    "with every logit at 0 or above",
    "no class can be made less likely than one whose logit is 0",
    "no relu behind the last layer"};

constexpr SoftmaxPattern kOtherDim = {
    "log_softmax",
    "nll_loss",
    "log_softmax_dim",
    Severity::kError,
    "which reads classes from another dimension than the one that it normalises over",
    "the probabilities of one class sum to 1 over the examples, and not those of one example over "
    "the classes: what is learnt depends on what else is in the batch",
    "log_softmax over the dimension of the classes, 1 where there is a batch"};

bool is_nll(std::string_view name) { return name.starts_with("nll_loss"); }

/// Where a matrix with a row per example is all that nll_loss is given of it, the dimension of the
/// classes is the last one.
bool is_flattened(const OpTrace::Output& output, TensorId input, const OpTrace& trace) {
  const OpTrace::Record* const view = trace.record_of(input);
  if (view == nullptr || view->outputs.size() != 1 || view->inputs.empty()) return false;
  const bool keeps_order = view->op == "aten::view" || view->op == "aten::_unsafe_view";
  const std::vector<std::int64_t>& shape = view->outputs.front().shape;
  return keeps_order && view->inputs.front() == output.id && output.shape.size() > 2 &&
         shape.size() == 2 && shape.back() == output.shape.back();
}

/// Other views move dimensions. In a square matrix both are meant, as where pairs are told apart
/// both ways.
bool is_over_other_dim(const OpTrace::Record& producer, TensorId input, const OpTrace& trace) {
  if (!producer.dim.has_value() || producer.outputs.size() != 1) return false;
  const OpTrace::Output& output = producer.outputs.front();
  const auto dims = static_cast<std::int64_t>(output.shape.size());
  if (output.id != input) {
    return is_flattened(output, input, trace) && *producer.dim != dims - 1;
  }
  const bool is_square = dims == 2 && output.shape[0] == output.shape[1];
  return !is_square && *producer.dim != (dims < 2 ? 0 : 1);
}

bool is_made_by(const SoftmaxPattern& pattern, std::string_view made) {
  if (!pattern.takes_logits()) return pattern.producer == made;
  return std::ranges::find(kLinears, made) != kLinears.end();
}
}  // namespace

bool normalizes(std::string_view op) {
  return op.ends_with("log_softmax") || op.ends_with("cross_entropy_with_logits") ||
         op.find("nll_loss") != std::string_view::npos;
}

std::string base_name(std::string_view op) {
  const std::size_t colons = op.find("::");
  std::string_view name = colons == std::string_view::npos ? op : op.substr(colons + 2);
  if (name.starts_with('_')) name.remove_prefix(1);
  if (name.ends_with('_')) name.remove_suffix(1);
  return std::string(name);
}

bool is_cross_entropy(const OpTrace::Record& log_softmax, const OpTrace& trace) {
  return std::ranges::any_of(trace.records(), [&](const OpTrace::Record& record) {
    return is_nll(base_name(record.op)) && !record.inputs.empty() &&
           maker_behind_views(trace, record.inputs.front()) == &log_softmax;
  });
}

const SoftmaxPattern* pattern_of(const OpTrace::Record& producer, const OpTrace::Record& loss,
                                 const OpTrace& trace) {
  const std::string made = base_name(producer.op);
  const std::string used = base_name(loss.op);
  const auto known = std::ranges::find_if(kPatterns, [&](const SoftmaxPattern& pattern) {
    const bool is_consumer =
        pattern.consumer == used || (pattern.consumer == "nll_loss" && is_nll(used));
    return is_made_by(pattern, made) && is_consumer;
  });
  if (known != kPatterns.end()) return &*known;
  if (made == kOtherDim.producer && is_nll(used) &&
      is_over_other_dim(producer, loss.inputs.front(), trace)) {
    return &kOtherDim;
  }
  const bool is_clamped = made == kClampedLogits.producer && used == kClampedLogits.consumer;
  return is_clamped && is_cross_entropy(loss, trace) ? &kClampedLogits : nullptr;
}

}  // namespace ddpscope
