#include "checks/range_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "checks/thrown_in.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;

bool are_labels(const OutOfRangeEvent& event) {
  return event.argument == "target" && !event.tensor.floating;
}

/// Every digit of a label or an index.
std::string number(const OutOfRangeEvent& event, double value) {
  return event.tensor.floating ? fmt::format("{:.6g}", value) : fmt::format("{:.0f}", value);
}

/// With the digits in which it differs from the limit that it exceeds.
std::string beyond(const OutOfRangeEvent& event, double value, double limit) {
  const std::string text = number(event, value);
  return text == number(event, limit) ? fmt::format("{}", value) : text;
}

std::string range_text(const OutOfRangeEvent& event) {
  if (!event.allowed_max.has_value()) return "[" + number(event, event.allowed_min) + ", ...]";
  return fmt::format("[{}, {}]", number(event, event.allowed_min),
                     number(event, *event.allowed_max));
}

bool is_below(const OutOfRangeEvent& event) { return event.minimum < event.allowed_min; }
bool is_above(const OutOfRangeEvent& event) {
  return event.allowed_max.has_value() && event.maximum > *event.allowed_max;
}

std::string extremes_text(const OutOfRangeEvent& event) {
  std::vector<std::string> parts;
  if (is_below(event)) {
    parts.push_back("minimum " + beyond(event, event.minimum, event.allowed_min));
  }
  if (is_above(event)) {
    parts.push_back("maximum " + beyond(event, event.maximum, *event.allowed_max));
  }
  if (event.tensor.floating) parts.push_back(fmt::format("{} NaN", event.nan_count));
  return joined(parts);
}

std::string what_of(const OutOfRangeEvent& event) {
  const std::string plural = event.argument == "index" ? "indices" : event.argument + "s";
  const std::string noun = event.judged_count == 1 ? event.argument : plural;
  return fmt::format("{} of {} {} {} outside {}: {}, first at index {}", event.offenders_count,
                     event.judged_count, noun, event.offenders_count == 1 ? "is" : "are",
                     range_text(event), extremes_text(event), event.first_index);
}

// 0 to `allowed_max`: so many classes, rows or elements.
std::int64_t places(const OutOfRangeEvent& event) {
  return static_cast<std::int64_t>(*event.allowed_max) + 1;
}

std::string span(const OutOfRangeEvent& event) {
  return fmt::format("{}..{}", number(event, event.minimum), number(event, event.maximum));
}

void explain_labels(const OutOfRangeEvent& event, Finding& finding) {
  finding.why = fmt::format(
      "the head has {}, the labels run {}",
      places(event) == 1 ? "1 class" : fmt::format("{} classes", places(event)), span(event));
  const bool from_one = event.minimum >= 1 && event.maximum == *event.allowed_max + 1;
  if (from_one) finding.fixes.push_back({"subtract 1 from the labels", kLikely});
  if (is_above(event)) {
    finding.fixes.push_back(
        {fmt::format("set the number of classes to {}", number(event, event.maximum + 1)),
         from_one ? kNeedsDecision : kLikely});
  }
  const std::string ignored =
      event.ignore_index.has_value() ? fmt::format(", which is {}", *event.ignore_index) : "";
  finding.fixes.push_back({fmt::format("give the filler value as ignore_index{}", ignored),
                           is_below(event) ? kLikely : kNeedsDecision});
}

void add_target_fixes(const OutOfRangeEvent& event, Finding& finding) {
  const bool is_class = event.minimum >= 0 && event.maximum == std::floor(event.maximum);
  if (event.minimum == -1 && event.maximum == 1) {
    finding.fixes.push_back({"map labels of -1 and 1 to 0 and 1: (target + 1) / 2", kLikely});
  } else if (is_class && event.maximum == 255) {
    finding.fixes.push_back({"divide masks of 0 to 255 by 255", kLikely});
  } else if (is_class && event.maximum > 1) {
    finding.fixes.push_back(
        {"cross_entropy and one output for each class, where targets are classes", kLikely});
  }
  finding.fixes.push_back({"targets of 0 to 1", kLikely});
}

/// LibTorch takes them.
bool is_of_logits(const OutOfRangeEvent& event) {
  return event.op == "aten::binary_cross_entropy_with_logits";
}

/// LibTorch makes NaN of targets below 0, and takes any input.
void explain_divergence(const OutOfRangeEvent& event, Finding& finding) {
  if (event.argument == "input") {
    finding.what = fmt::format("its input lies in [{:.3g}, {:.3g}]: no logarithms of probabilities",
                               event.minimum, event.maximum);
    finding.why =
        "kl_div takes logarithms, which are 0 at most: of probabilities it makes the negative "
        "product with the targets";
    finding.fixes = {{"log_softmax in place of softmax before kl_div", kLikely}};
    return;
  }
  finding.why =
      "its targets are probabilities unless log_target is set, and the logarithm of one below 0 is "
      "NaN";
  finding.fixes = {
      {"log_target(true), where the targets are logarithms, as of log_softmax", kLikely},
      {"softmax of the targets along the classes, where they are logits", kLikely}};
  if (event.maximum > 0) std::swap(finding.fixes.front(), finding.fixes.back());
}

void explain_probabilities(const OutOfRangeEvent& event, Finding& finding) {
  const bool only_nan = event.nan_count == event.offenders_count;
  finding.why = only_nan ? "NaN is inside of no range"
                         : "the operator takes probabilities, and these are none";
  if (!only_nan && event.argument == "input") {
    finding.fixes.push_back(
        {"binary_cross_entropy_with_logits where the input are logits", kLikely});
    finding.fixes.push_back({"sigmoid before binary_cross_entropy", kLikely});
  }
  if (is_of_logits(event)) {
    finding.severity = Severity::kWarning;
    finding.why =
        "its targets are probabilities, and these are none; LibTorch takes them, and their loss "
        "falls without end";
    if (event.tensor.requires_grad) {
      finding.fixes.push_back(
          {"the logits first and the targets second, where they are swapped", kLikely});
    }
  }
  if (event.argument == "target") add_target_fixes(event, finding);
  if (event.nan_count > 0) finding.fixes.push_back({"find where the NaN came from", kLikely});
}

void explain_index(const OutOfRangeEvent& event, Finding& finding) {
  if (event.op == "aten::one_hot") {
    finding.why = fmt::format("the classes run {}", span(event));
    if (is_above(event)) {
      finding.fixes.push_back(
          {fmt::format("set num_classes to {}", number(event, event.maximum + 1)), kLikely});
    }
  } else {
    const bool is_table = event.op == "aten::embedding";
    finding.why = fmt::format("the {} has {}, the indices run {}", is_table ? "table" : "dimension",
                              counted(places(event), is_table ? "row" : "element"), span(event));
    if (is_table && is_above(event)) {
      finding.fixes.push_back(
          {fmt::format("give the table {} rows", number(event, event.maximum + 1)), kLikely});
      finding.fixes.push_back({"map what is not known to a row of its own", kNeedsDecision});
    }
  }
  if (is_below(event)) finding.fixes.push_back({"no negative values: they do not wrap", kLikely});
  if (finding.fixes.empty()) {
    finding.fixes.push_back({"compute the indices for this dimension", kLikely});
  }
}

FactValue value_fact(const OutOfRangeEvent& event, double value) {
  if (event.tensor.floating) return value;
  constexpr double kLargest = 9.2e18;
  return static_cast<std::int64_t>(std::clamp(value, -kLargest, kLargest));
}
}  // namespace

Finding out_of_range(const OutOfRangeEvent& event, const RunState& state) {
  Finding finding;
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.step = event.at.step;
  finding.op = event.op;
  place_in(event.module, state, finding);
  finding.what = what_of(event);
  if (event.op == "aten::kl_div") {
    explain_divergence(event, finding);
  } else if (event.tensor.floating) {
    explain_probabilities(event, finding);
  } else if (are_labels(event)) {
    explain_labels(event, finding);
  } else {
    explain_index(event, finding);
  }
  add_site("called", event.stack, state, finding);
  finding.facts = {{fact::kOpArgument, event.argument},
                   {fact::kOffendersCount, event.offenders_count},
                   {fact::kFirstIndex, event.first_index},
                   {fact::kNanCount, event.nan_count}};
  if (event.allowed_min > std::numeric_limits<double>::lowest()) {
    finding.facts.push_back({fact::kAllowedMin, value_fact(event, event.allowed_min)});
  }
  if (event.nan_count < event.judged_count) {
    finding.facts.push_back({fact::kMinimum, value_fact(event, event.minimum)});
    finding.facts.push_back({fact::kMaximum, value_fact(event, event.maximum)});
  }
  if (event.allowed_max.has_value()) {
    finding.facts.push_back({fact::kAllowedMax, value_fact(event, *event.allowed_max)});
  }
  if (event.ignore_index.has_value()) {
    finding.facts.push_back({fact::kIgnoreIndex, *event.ignore_index});
  }
  return finding;
}

namespace {
/// What operators on the CPU say of values that they do not accept.
struct Refusal {
  std::string_view text;
  std::string_view argument;
  std::string_view noun;
  Fix fix;
};

const std::vector<Refusal>& refusals() {
  static const auto* const known = new std::vector<Refusal>{
      {"Target ",
       "target",
       "targets",
       {"labels of 0 to the number of classes less one, and a filler value as ignore_index",
        kLikely}},
      {"index out of range in self",
       "index",
       "indices",
       {"as many rows in the table as there are indices, from 0 on", kLikely}},
      {"Class values must be",
       "index",
       "classes",
       {"set num_classes to the largest class plus one; no negative classes", kLikely}},
      {" should be between 0 and 1",
       "input",
       "probabilities",
       {"binary_cross_entropy_with_logits where the input are logits; targets of 0 to 1", kLikely}},
  };
  return *known;
}

const Refusal* refusal_in(const std::string& message) {
  const auto known = std::ranges::find_if(refusals(), [&message](const Refusal& one) {
    return message.find(one.text) != std::string::npos;
  });
  if (known == refusals().end()) return nullptr;
  const bool is_label = known->argument == "target";
  return is_label && message.find("is out of bounds") == std::string::npos ? nullptr : &*known;
}
}  // namespace

std::optional<Finding> thrown_out_of_range(const ErrorEvent& event, const RunState& state) {
  const Refusal* const refusal = refusal_in(event.message);
  if (refusal == nullptr) return std::nullopt;
  const ThrownIn thrown = thrown_in(event, state);
  Finding finding;
  finding.severity = Severity::kError;
  finding.phase = Phase::kForward;
  finding.step = event.at.step;
  finding.op = thrown.op;
  place_in(event.module, state, finding);
  finding.what =
      fmt::format("{} are outside of the range of the operator that reads them", refusal->noun);
  finding.why = "it threw: " + event.message.substr(0, event.message.find('\n'));
  finding.fixes = {refusal->fix};
  if (!thrown.site.frames.empty()) finding.sites.push_back(thrown.site);
  finding.facts = {{fact::kOpArgument, std::string(refusal->argument)}};
  return finding;
}

}  // namespace ddpscope
