#include "checks/broadcast_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using Shape = std::vector<std::int64_t>;

constexpr std::string_view kDifference = "aten::sub";
constexpr std::array<std::string_view, 6> kLosses = {
    "aten::mse_loss", "aten::smooth_l1_loss",       "aten::huber_loss",
    "aten::l1_loss",  "aten::binary_cross_entropy", "aten::binary_cross_entropy_with_logits"};

std::int64_t elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

Shape together(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (const Shape* one : {&a, &b}) {
    const std::size_t first = shape.size() - one->size();
    for (std::size_t i = 0; i < one->size(); ++i) {
      shape[first + i] = std::max(shape[first + i], (*one)[i]);
    }
  }
  return shape;
}

Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

/// All pairs of one list are a mistake; of two lists, or made by a view, they are meant.
bool is_meant(bool is_loss, const Operand& a, const Operand& b) {
  if (is_loss) return a.reshaped && b.reshaped;
  return a.reshaped || b.reshaped || without_ones(a.shape) != without_ones(b.shape);
}

/// A plain tensor against what is trained: a target that lacks a dimension.
bool is_target(const Operand& target, const Operand& other) {
  return !target.computed && !target.registered && !target.requires_grad && other.requires_grad;
}

std::optional<std::string> broadcast_cause(bool is_loss, const Operand& a, const Operand& b,
                                           const Shape& shape) {
  const std::int64_t larger = std::max(elements(a.shape), elements(b.shape));
  if (elements(shape) > larger) {
    if (is_meant(is_loss, a, b)) return std::nullopt;
    return "both_broadcast";
  }
  const Operand& small = elements(a.shape) < elements(b.shape) ? a : b;
  if (!is_loss && !is_target(small, &small == &a ? b : a)) return std::nullopt;
  return "one_sided";
}

const Operand& target_of(const BroadcastPair& pair) {
  return pair.a.requires_grad || !pair.b.requires_grad ? pair.b : pair.a;
}
const Operand& prediction_of(const BroadcastPair& pair) {
  return &target_of(pair) == &pair.b ? pair.a : pair.b;
}

/// `1` where `longer` is `shorter` with a dimension of one element more.
std::optional<std::size_t> lacking(const Shape& shorter, const Shape& longer) {
  if (longer.size() != shorter.size() + 1) return std::nullopt;
  for (std::size_t i = 0; i < longer.size(); ++i) {
    Shape rest = longer;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    if (longer[i] == 1 && rest == shorter) return i;
  }
  return std::nullopt;
}

void explain_pair(const BroadcastPair& pair, Finding& finding) {
  using enum Applicability;
  const Operand& prediction = prediction_of(pair);
  const Operand& target = target_of(pair);
  finding.fixes = {{"give both the same shape, and check it with TORCH_CHECK", kLikely}};
  if (pair.cause == "one_sided") {
    finding.why = elements(pair.a.shape) == elements(pair.b.shape)
                      ? "they differ by dimensions of one element; no term is repeated"
                      : "the smaller one is repeated for every row of the other";
    finding.fixes.push_back({"intended: expand_as says so", kNeedsDecision});
    return;
  }
  finding.why = "each prediction is compared with every target: the loss trains towards the mean";
  if (const auto at = lacking(target.shape, prediction.shape)) {
    finding.why = fmt::format("the target lacks dimension {}; {}", *at, finding.why);
    finding.fixes.insert(
        finding.fixes.begin(),
        {fmt::format("target.unsqueeze({0}) or prediction.squeeze({0})", *at), kLikely});
  } else if (const auto more = lacking(prediction.shape, target.shape)) {
    finding.why = fmt::format("the prediction lacks dimension {}; {}", *more, finding.why);
    finding.fixes.insert(
        finding.fixes.begin(),
        {fmt::format("target.squeeze({0}) or prediction.unsqueeze({0})", *more), kLikely});
  }
}
}  // namespace

std::optional<BroadcastPair> broadcast_of(const OpTrace::Record& record, const RunState& state) {
  const bool is_loss = std::ranges::find(kLosses, record.op) != kLosses.end();
  if ((!is_loss && record.op != kDifference) || record.inputs.size() < 2) return std::nullopt;
  const auto a = operand_of(state, record.inputs[0]);
  const auto b = operand_of(state, record.inputs[1]);
  if (!a.has_value() || !b.has_value() || a->shape == b->shape) return std::nullopt;
  if (elements(a->shape) < 2 || elements(b->shape) < 2) return std::nullopt;
  if (!a->requires_grad && !b->requires_grad) return std::nullopt;
  BroadcastPair pair{.a = *a, .b = *b, .shape = together(a->shape, b->shape)};
  auto cause = broadcast_cause(is_loss, pair.a, pair.b, pair.shape);
  if (!cause.has_value()) return std::nullopt;
  pair.cause = std::move(*cause);
  return pair;
}

Finding broadcast_finding(const OpTrace::Record& record, const BroadcastPair& pair,
                          const RunState& state) {
  Finding finding = finding_at(record, state);
  const std::int64_t terms = elements(pair.shape);
  const std::int64_t expected = std::max(elements(pair.a.shape), elements(pair.b.shape));
  finding.severity = pair.cause == "one_sided" ? Severity::kNote : Severity::kWarning;
  finding.what = fmt::format("prediction {} and target {} broadcast to {}; {} terms",
                             shape_text(prediction_of(pair).shape),
                             shape_text(target_of(pair).shape), shape_text(pair.shape), terms);
  if (terms != expected) finding.what += fmt::format(" instead of {}", expected);
  explain_pair(pair, finding);
  add_site("called", record.stack, state, finding);
  finding.facts = {{fact::kCause, pair.cause},
                   {fact::kShapeA, shape_text(pair.a.shape)},
                   {fact::kShapeB, shape_text(pair.b.shape)},
                   {fact::kShapeOut, shape_text(pair.shape)},
                   {fact::kTermsCount, terms},
                   {fact::kExpectedTermsCount, expected}};
  return finding;
}

}  // namespace ddpscope
