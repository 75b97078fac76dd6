#include "checks/risky_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checks/nonfinite_text.h"

namespace ddpscope {
namespace {
using enum Applicability;

struct RuleText {
  std::string_view rule;
  std::string_view why;
  std::string_view fix;
};
constexpr std::array<RuleText, 9> kRules = {{
    {"log", "log is -Inf at 0 and NaN below, and its slope is infinite at 0",
     "clamp before it: `p.clamp_min({:.2g}).log()`"},
    {"log1p", "log1p is -Inf at -1 and NaN below, and its slope is infinite at -1",
     "clamp before it: `x.clamp_min(-0.999).log1p()`"},
    {"sqrt",
     "the slope of sqrt is infinite at 0, and below 0 it is NaN: the gradient of these "
     "elements is Inf or NaN",
     "clamp before it: `(x * x).sum(1).clamp_min({:.2g}).sqrt()`"},
    {"reciprocal", "its value and its slope are infinite at 0",
     "clamp the magnitude of its input to {:.2g} or more"},
    {"division", "the quotient of a denominator below the smallest normal number overflows",
     "clamp the magnitude of the denominator to {:.2g} or more"},
    {"power", "with an exponent below 1 its slope is infinite at 0",
     "clamp the input to {:.2g} or more"},
    {"arc", "its slope is infinite at -1 and 1, and beyond them it is NaN",
     "clamp the input to less than 1 in magnitude"},
    {"exp", "beyond the logarithm of the largest number of the dtype exp is Inf",
     "subtract the maximum before it, as softmax and logsumexp do"},
    {"epsilon_lost",
     "a constant below the resolution of the dtype is 0 in it: what it was to "
     "protect is unprotected",
     "a constant of {:.2g} or more"},
}};

/// Small, and far enough from 0 that value and slope are finite.
double floor_of(const RiskyInputEvent& event) { return event.dtype == "float16" ? 6.2e-5 : 1e-12; }

std::string alternative(const RiskyInputEvent& event) {
  if (event.rule == "log" && !event.op.starts_with("aten::log1p")) {
    return "log_softmax instead of log(softmax)";
  }
  if (event.rule == "sqrt") return "an operator with a defined slope: `torch::norm`";
  return "compute it in float32 or float64";
}
}  // namespace

bool is_at_edge(const RiskyInputEvent& event) {
  const FloatType* type = float_type(event.dtype);
  const double smallest = type == nullptr ? 0 : type->smallest_normal;
  if (event.rule == "log") return event.input_min <= 0 || event.input_min < smallest;
  if (event.rule == "sqrt") return event.input_min <= 0;
  if (event.rule == "reciprocal" || event.rule == "power") return event.input_absmin == 0;
  if (event.rule == "division") return event.input_absmin == 0 || event.input_absmin < smallest;
  return true;
}

std::string edge_text(const RiskyInputEvent& event, std::string_view is) {
  if (event.rule == "epsilon_lost") {
    return fmt::format("constant {:g} {} 0 in {}", event.epsilon, is, event.dtype);
  }
  if (event.rule == "exp") return fmt::format("input maximum {} {:g}", is, event.input_max);
  if (event.rule == "arc") {
    return fmt::format("input range {} [{:g}, {:g}]", is, event.input_min, event.input_max);
  }
  if (event.rule == "division") {
    return fmt::format("denominator magnitude minimum {} {:g}", is, event.input_absmin);
  }
  if (event.rule == "reciprocal" || event.rule == "power") {
    return fmt::format("input magnitude minimum {} {:g}", is, event.input_absmin);
  }
  return fmt::format("input minimum {} {:g}", is, event.input_min);
}

void describe_edge(const RiskyInputEvent& event, Finding& finding) {
  const bool is_log1p = event.op.starts_with("aten::log1p");
  const std::string_view rule = is_log1p ? std::string_view("log1p") : event.rule;
  const auto* text = std::ranges::find(kRules, rule, &RuleText::rule);
  finding.what = edge_text(event, "is");
  if (event.rule == "epsilon_lost") {
    finding.what = "the " + finding.what;
  } else {
    finding.what +=
        fmt::format(", {} of {} elements are at the edge", event.offending_count, event.elements);
  }
  if (text == kRules.end()) return;
  finding.why = text->why;
  finding.fixes = {{fmt::format(fmt::runtime(text->fix), floor_of(event)), kLikely},
                   {alternative(event), kNeedsDecision}};
}

}  // namespace ddpscope
