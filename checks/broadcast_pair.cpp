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
constexpr std::string_view kProduct = "aten::mul";
constexpr std::array<std::string_view, 4> kArithmetic = {"aten::add", kDifference, kProduct,
                                                         "aten::div"};
constexpr std::size_t kMostRecords = 32;
constexpr std::array<std::string_view, 6> kLosses = {
    "aten::mse_loss", "aten::smooth_l1_loss",       "aten::huber_loss",
    "aten::l1_loss",  "aten::binary_cross_entropy", "aten::binary_cross_entropy_with_logits"};

bool is_loss(const OpTrace::Record& record) {
  return std::ranges::find(kLosses, record.op) != kLosses.end();
}

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

bool makes_pairs(const Operand& a, const Operand& b) {
  return elements(together(a.shape, b.shape)) > std::max(elements(a.shape), elements(b.shape));
}

bool pairs_by_mistake(const OpTrace::Record& record, const RunState& state) {
  if (std::ranges::find(kArithmetic, record.op) == kArithmetic.end()) return false;
  if (record.inputs.size() < 2) return false;
  const auto a = operand_of(state, record.inputs[0]);
  const auto b = operand_of(state, record.inputs[1]);
  return a && b && makes_pairs(*a, *b) && !is_meant(/*is_loss=*/false, *a, *b);
}

/// What made all pairs of two lists of one length; operators that keep the shape came after it.
const OpTrace::Record* paired_in(const Operand& operand, const RunState& state) {
  std::vector<TensorId> open = {operand.id};
  for (std::size_t next = 0; next < open.size() && open.size() < kMostRecords; ++next) {
    const OpTrace::Record* made = state.trace().record_of(open[next]);
    if (made == nullptr || made->outputs.front().shape != operand.shape) continue;
    if (pairs_by_mistake(*made, state)) return made;
    open.insert(open.end(), made->inputs.begin(), made->inputs.end());
  }
  return nullptr;
}

/// Whether all elements of the result enter one number, and no rows or columns of it another.
bool is_reduced_whole(const OpTrace::Record& record, const RunState& state) {
  std::vector<const OpTrace::Record*> open = {&record};
  const Shape& shape = record.outputs.front().shape;
  bool is_reduced = false;
  for (std::size_t at = 0; at < open.size() && open.size() < kMostRecords; ++at) {
    for (const std::size_t number : state.trace().consumers_of(open[at]->outputs.front().id)) {
      const OpTrace::Record& next = state.trace().records()[number];
      if (next.outputs.empty()) continue;
      const Shape& made = next.outputs.front().shape;
      is_reduced |= elements(made) == 1;
      if (elements(made) == 1) continue;
      if (made != shape) return false;
      open.push_back(&next);
    }
  }
  return is_reduced;
}

/// A parameter may stand for each column of what it is multiplied by.
bool is_of_parameter(const Operand& operand) {
  return operand.registered || (operand.requires_grad && !operand.computed);
}

const Operand& smaller_of(const BroadcastPair& pair) {
  return elements(pair.a.shape) < elements(pair.b.shape) ? pair.a : pair.b;
}
const Operand& larger_of(const BroadcastPair& pair) {
  return &smaller_of(pair) == &pair.a ? pair.b : pair.a;
}

std::int64_t terms_meant(const BroadcastPair& pair) {
  return elements(pair.before == nullptr ? larger_of(pair).shape : smaller_of(pair).shape);
}

bool is_broadcast_before(BroadcastPair& pair, const OpTrace::Record& record,
                         const RunState& state) {
  const Operand& small = smaller_of(pair);
  if (!small.computed || !small.requires_grad || small.registered) return false;
  if (!is_loss(record) && !is_reduced_whole(record, state)) return false;
  pair.before = paired_in(larger_of(pair), state);
  return pair.before != nullptr;
}

std::optional<std::string> cause_of(BroadcastPair& pair, const OpTrace::Record& record,
                                    const RunState& state) {
  if (makes_pairs(pair.a, pair.b)) {
    const bool is_product = record.op == kProduct;
    if (is_meant(is_loss(record), pair.a, pair.b)) return std::nullopt;
    if (is_product && (is_of_parameter(pair.a) || is_of_parameter(pair.b))) return std::nullopt;
    if (is_product && !is_reduced_whole(record, state)) return std::nullopt;
    return "both_broadcast";
  }
  if (is_broadcast_before(pair, record, state)) return "broadcast_before";
  if (record.op == kProduct) return std::nullopt;
  if (!is_loss(record) && !is_target(smaller_of(pair), larger_of(pair))) return std::nullopt;
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

void explain_one_sided(const BroadcastPair& pair, Finding& finding) {
  finding.why = elements(pair.a.shape) == elements(pair.b.shape)
                    ? "they differ by dimensions of one element; no term is repeated"
                    : "the smaller one is repeated for every row of the other";
  finding.fixes = {
      {"give both the same shape, and check it with TORCH_CHECK", Applicability::kLikely},
      {"intended: expand_as says so", Applicability::kNeedsDecision}};
}

void explain_before(const BroadcastPair& pair, const RunState& state, Finding& finding) {
  const auto a = operand_of(state, pair.before->inputs[0]);
  const auto b = operand_of(state, pair.before->inputs[1]);
  const std::string shapes = shape_text(a->shape) + " and " + shape_text(b->shape);
  finding.why = fmt::format("{} made all pairs of {}: each term of the loss meets every element",
                            pair.before->op, shapes);
  finding.fixes = {{fmt::format("bring {} to one shape before {}", shapes, pair.before->op),
                    Applicability::kLikely}};
  add_site("created", pair.before->stack, state, finding);
}

void explain_product(const BroadcastPair& pair, Finding& finding) {
  finding.why =
      "each factor is multiplied by every other one: the mean of all pairs is the product of the "
      "means";
  const bool is_first_longer = pair.a.shape.size() > pair.b.shape.size();
  const Shape& longer = is_first_longer ? pair.a.shape : pair.b.shape;
  const Shape& shorter = is_first_longer ? pair.b.shape : pair.a.shape;
  if (const auto at = lacking(shorter, longer)) {
    finding.fixes.insert(
        finding.fixes.begin(),
        {fmt::format("squeeze({}) of {}", *at, shape_text(longer)), Applicability::kLikely});
  }
}

void explain_pairs(const BroadcastPair& pair, Finding& finding) {
  using enum Applicability;
  const Operand& prediction = prediction_of(pair);
  const Operand& target = target_of(pair);
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
  const bool is_known = is_loss(record) || record.op == kDifference || record.op == kProduct;
  if (!is_known || record.inputs.size() < 2 || record.outputs.empty()) return std::nullopt;
  const auto a = operand_of(state, record.inputs[0]);
  const auto b = operand_of(state, record.inputs[1]);
  if (!a.has_value() || !b.has_value() || a->shape == b->shape) return std::nullopt;
  if (elements(a->shape) < 2 || elements(b->shape) < 2) return std::nullopt;
  if (!a->requires_grad && !b->requires_grad) return std::nullopt;
  BroadcastPair pair{.a = *a, .b = *b, .shape = together(a->shape, b->shape)};
  auto cause = cause_of(pair, record, state);
  if (!cause.has_value()) return std::nullopt;
  pair.cause = std::move(*cause);
  return pair;
}

Finding broadcast_finding(const OpTrace::Record& record, const BroadcastPair& pair,
                          const RunState& state) {
  Finding finding = finding_at(record, state);
  const bool is_product = record.op == kProduct;
  const std::int64_t terms = elements(pair.shape);
  const std::int64_t expected = terms_meant(pair);
  const Operand& first = is_product ? pair.a : prediction_of(pair);
  const Operand& second = is_product ? pair.b : target_of(pair);
  finding.severity = pair.cause == "one_sided" ? Severity::kNote : Severity::kWarning;
  finding.what =
      fmt::format("{} {} and {}{} broadcast to {}; {} terms", is_product ? "factors" : "prediction",
                  shape_text(first.shape), is_product ? "" : "target ", shape_text(second.shape),
                  shape_text(pair.shape), terms);
  if (terms != expected) finding.what += fmt::format(" instead of {}", expected);
  finding.fixes = {
      {"give both the same shape, and check it with TORCH_CHECK", Applicability::kLikely}};
  add_site("called", record.stack, state, finding);
  if (pair.cause == "one_sided") {
    explain_one_sided(pair, finding);
  } else if (pair.before != nullptr) {
    explain_before(pair, state, finding);
  } else if (is_product) {
    explain_product(pair, finding);
  } else {
    explain_pairs(pair, finding);
  }
  finding.facts = {{fact::kCause, pair.cause},
                   {fact::kShapeA, shape_text(pair.a.shape)},
                   {fact::kShapeB, shape_text(pair.b.shape)},
                   {fact::kShapeOut, shape_text(pair.shape)},
                   {fact::kTermsCount, terms},
                   {fact::kExpectedTermsCount, expected}};
  return finding;
}

}  // namespace ddpscope
