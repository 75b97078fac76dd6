#include "hooks/risky_inputs.h"

#include <c10/core/ScalarType.h>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "hooks/op_inputs.h"
#include "hooks/tensor_registry.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {

/// What the type of the elements can hold.
struct Limits {
  double smallest_normal = 0;
  double smallest = 0;  ///< above 0
  double largest = 0;
};

Limits limits_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return {.smallest_normal = 0x1p-14, .smallest = 0x1p-24, .largest = 65504};
    case at::kBFloat16:
      return {.smallest_normal = 0x1p-126, .smallest = 0x1p-133, .largest = 0x1.FEp127};
    case at::kFloat:
      return {.smallest_normal = std::numeric_limits<float>::min(),
              .smallest = std::numeric_limits<float>::denorm_min(),
              .largest = std::numeric_limits<float>::max()};
    default:
      return {.smallest_normal = std::numeric_limits<double>::min(),
              .smallest = std::numeric_limits<double>::denorm_min(),
              .largest = std::numeric_limits<double>::max()};
  }
}

using Offends = bool (*)(double element, const Limits& limits);

/// One operator with an edge: which argument is near it, and when.
struct Edge {
  std::string_view op;
  const char* rule;
  std::size_t argument;
  Offends offends;
};

constexpr std::array kEdges = {
    Edge{"aten::log", "log", 0, [](double x, const Limits& l) { return x < l.smallest_normal; }},
    Edge{"aten::log2", "log", 0, [](double x, const Limits& l) { return x < l.smallest_normal; }},
    Edge{"aten::log10", "log", 0, [](double x, const Limits& l) { return x < l.smallest_normal; }},
    Edge{"aten::log1p", "log", 0, [](double x, const Limits&) { return x <= -1; }},
    Edge{"aten::sqrt", "sqrt", 0, [](double x, const Limits&) { return x <= 0; }},
    Edge{"aten::rsqrt", "reciprocal", 0, [](double x, const Limits&) { return x == 0; }},
    Edge{"aten::reciprocal", "reciprocal", 0, [](double x, const Limits&) { return x == 0; }},
    Edge{"aten::div", "division", 1,
         [](double x, const Limits& l) { return std::abs(x) < l.smallest_normal; }},
    Edge{"aten::pow", "power", 0, [](double x, const Limits&) { return x == 0; }},
    Edge{"aten::acos", "arc", 0, [](double x, const Limits&) { return std::abs(x) >= 1; }},
    Edge{"aten::asin", "arc", 0, [](double x, const Limits&) { return std::abs(x) >= 1; }},
    Edge{"aten::exp", "exp", 0, [](double x, const Limits& l) { return x > std::log(l.largest); }},
};

const Edge* edge_of(std::string_view op) {
  for (const Edge& edge : kEdges) {
    if (edge.op == op) return &edge;
  }
  return nullptr;
}

const at::Tensor* floating_argument(const at::RecordFunction& function, std::size_t index) {
  if (function.inputs().size() <= index || !function.inputs()[index].isTensor()) return nullptr;
  const at::Tensor& tensor = function.inputs()[index].toTensor();
  return tensor.defined() && tensor.is_floating_point() ? &tensor : nullptr;
}

// The slope of a power is infinite at 0 below exponent 1.
bool has_steep_exponent(const at::RecordFunction& function) {
  const auto constants = constants_of(function);
  return !constants.empty() && constants.back() < 1 && constants.back() != 0;
}

RiskyInputEvent event_of(const at::RecordFunction& function, const char* rule,
                         const at::Tensor& tensor) {
  return {.op = function.name(),
          .rule = rule,
          .dtype = dtype_name(tensor.scalar_type()),
          .elements = tensor.numel()};
}

std::optional<RiskyInputEvent> near_edge(const at::RecordFunction& function, const Edge& edge) {
  const at::Tensor* tensor = floating_argument(function, edge.argument);
  if (tensor == nullptr) return std::nullopt;
  const Limits limits = limits_of(tensor->scalar_type());
  RiskyInputEvent event = event_of(function, edge.rule, *tensor);
  event.input_min = event.input_absmin = std::numeric_limits<double>::infinity();
  event.input_max = -event.input_min;
  for_each_element(*tensor, [&](double element) {
    event.input_min = std::min(event.input_min, element);
    event.input_max = std::max(event.input_max, element);
    event.input_absmin = std::min(event.input_absmin, std::abs(element));
    event.offending_count += edge.offends(element, limits);
  });
  if (event.offending_count == 0) return std::nullopt;
  return event;
}

// An addend that the type of the sum rounds to 0.
std::optional<RiskyInputEvent> lost_epsilon(const at::RecordFunction& function) {
  const at::Tensor* tensor = floating_argument(function, 0);
  if (tensor == nullptr || function.inputs().size() < 2) return std::nullopt;
  const auto epsilon = number_of(function.inputs()[1]);
  const double half_of_smallest = limits_of(tensor->scalar_type()).smallest / 2;
  if (!epsilon.has_value() || *epsilon == 0 || std::abs(*epsilon) > half_of_smallest) {
    return std::nullopt;
  }
  RiskyInputEvent event = event_of(function, "epsilon_lost", *tensor);
  event.epsilon = *epsilon;
  event.offending_count = event.elements;
  return event;
}
}  // namespace

std::optional<RiskyInputEvent> risk_of(const at::RecordFunction& function) {
  const std::string_view op = function.name();
  if (op == "aten::add" || op == "aten::add_") return lost_epsilon(function);
  const Edge* edge = edge_of(op);
  if (edge == nullptr) return std::nullopt;
  if (edge->op == "aten::pow" && !has_steep_exponent(function)) return std::nullopt;
  return near_edge(function, *edge);
}

}  // namespace ddpscope
