#include "checks/nonfinite_fixes.h"

#include <algorithm>
#include <array>

namespace ddpscope {
namespace {
struct OperatorFix {
  std::string_view op;
  std::string_view text;
};
constexpr std::string_view kArc = "clamp its input to less than 1 in magnitude";
constexpr std::string_view kAboveZero = "clamp its input above 0 before it";
constexpr std::string_view kDenominator =
    "add an epsilon to what it divides by, or clamp the magnitude of that";
constexpr std::string_view kMaximum = "subtract the maximum before it, as softmax does";
constexpr std::string_view kMasked = "leave at least one element in each row that is not -Inf";
constexpr std::string_view kOneElement =
    "unbiased=false, or another dimension: of one element alone the unbiased one is NaN";
constexpr std::string_view kPaths =
    "CTCLossOptions().zero_infinity(true), or leave out targets that are longer than their input";
constexpr std::array<OperatorFix, 22> kFixes = {{{"aten::_ctc_loss", kPaths},
                                                 {"aten::_log_softmax", kMasked},
                                                 {"aten::_softmax", kMasked},
                                                 {"aten::acos", kArc},
                                                 {"aten::asin", kArc},
                                                 {"aten::ctc_loss", kPaths},
                                                 {"aten::div", kDenominator},
                                                 {"aten::exp", kMaximum},
                                                 {"aten::log", kAboveZero},
                                                 {"aten::log10", kAboveZero},
                                                 {"aten::log2", kAboveZero},
                                                 {"aten::log_softmax", kMasked},
                                                 {"aten::masked_fill", kMasked},
                                                 {"aten::pow", "clamp its base above 0"},
                                                 {"aten::reciprocal", kDenominator},
                                                 {"aten::rsqrt", kAboveZero},
                                                 {"aten::softmax", kMasked},
                                                 {"aten::sqrt", kAboveZero},
                                                 {"aten::std", kOneElement},
                                                 {"aten::std_mean", kOneElement},
                                                 {"aten::var", kOneElement},
                                                 {"aten::var_mean", kOneElement}}};
}  // namespace

std::string_view fix_of_nonfinite(std::string_view op) {
  if (op.ends_with('_')) op.remove_suffix(1);
  const auto* fix = std::ranges::find(kFixes, op, &OperatorFix::op);
  if (fix != kFixes.end()) return fix->text;
  return "look at the batch of this step and at the range of what enters this operator";
}

}  // namespace ddpscope
