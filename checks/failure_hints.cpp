#include "checks/failure_hints.h"

#include <fmt/format.h>

#include <array>

namespace ddpscope {
namespace {
using enum Applicability;

struct Hint {
  std::string_view text;  ///< what the exception says
  std::string_view why;
  std::vector<Fix> fixes;
  bool of_bucket_views = false;  ///< true only beside a Reducer whose gradients are such
};

const std::array<Hint, 8>& hints() {
  const std::vector<Fix> pad = {
      {"pad to one length in the collate step before torch::stack", kLikely}};
  const std::vector<Fix> memory = {
      {"less at once: memory-out-of-memory says what holds it", kLikely}};
  // Never destroyed: the last events are judged while the process exits.
  static const auto* const known = new std::array<Hint, 8>{{
      {"view size is not compatible",
       "view needs a layout that the input does not have",
       {{"reshape(...) instead of view(...)", kSafe}, {"contiguous() before view", kSafe}}},
      {"stack expects each tensor to be equal size", "the samples differ in size", pad},
      {"should be of equal size", "the samples differ in size", pad},
      {"shapes cannot be multiplied",
       "the width of the input is not what the layer was built for",
       {{"build the layer for this input width", kLikely},
        {"flatten or transpose the input before it", kNeedsDecision}}},
      {"can't allocate memory", "memory ran out", memory},
      {"out of memory", "memory ran out", memory},
      {"should be between 0 and 1",
       "its input is no probability",
       {{"sigmoid before it, or binary_cross_entropy_with_logits", kLikely},
        {"look for NaN in what enters it", kNeedsDecision}}},
      {"Can't detach views in-place",
       "with gradient_as_bucket_view gradients are views of the buckets of c10d::Reducer, and "
       "Optimizer::zero_grad() detaches each gradient in place, whether it sets to none or to zero",
       {{"zero_grad() of the module in place of that of the optimizer", kSafe},
        {"set gradients to zero in place: parameter.mutable_grad().zero_()", kSafe},
        {"build the Reducer without gradient_as_bucket_view", kLikely}},
       /*of_bucket_views=*/true},
  }};
  return *known;
}
}  // namespace

std::string first_line_thrown(const std::string& message) {
  return message.substr(0, message.find('\n'));
}

void explain_failure(const std::string& message, const RunState& state, Finding& finding) {
  finding.why = first_line_thrown(message);
  finding.fixes = {{"compare the shapes with what the operator expects", kNeedsDecision}};
  for (const Hint& hint : hints()) {
    if (message.find(hint.text) == std::string::npos) continue;
    if (hint.of_bucket_views && !state.has_bucket_views()) continue;
    finding.why = fmt::format("{}: {}", hint.why, first_line_thrown(message));
    finding.fixes = hint.fixes;
    return;
  }
}

}  // namespace ddpscope
