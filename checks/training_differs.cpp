#include "checks/training_differs.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "checks/op_trace.h"
#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::size_t kShown = 4;

/// `aten::tanh in b`
std::string words_of(const TrainedOnSome& one) {
  return one.module.empty() ? one.op : one.op + " in " + one.module;
}

/// By the ranks, so that each is named once.
std::vector<RankSide> sides_of(const std::vector<TrainedOnSome>& parts) {
  std::vector<RankSide> sides;
  for (const TrainedOnSome& one : parts) {
    const auto known = std::ranges::find(sides, one.ranks, &RankSide::ranks);
    if (known == sides.end()) {
      sides.push_back({words_of(one), one.ranks});
    } else {
      known->value += ", " + words_of(one);
    }
  }
  std::ranges::stable_sort(sides, {}, [](const RankSide& side) { return side.ranks.size(); });
  return sides;
}

/// `aten::tanh on rank 1 alone; aten::relu on rank 0 alone`
std::string words_of(const std::vector<RankSide>& sides) {
  std::string text;
  for (std::size_t i = 0; i < std::min(sides.size(), kShown); ++i) {
    text += (i > 0 ? "; " : "") + sides[i].value + " on " + rank_words(sides[i].ranks) + " alone";
  }
  return sides.size() > kShown ? text + " and more" : text;
}

std::string deepest_module(const std::vector<TrainedOnSome>& parts) {
  std::string path = parts.front().module;
  for (const TrainedOnSome& one : parts) path = common_path(path, one.module);
  return path;
}

std::vector<FactScalar> modules_in(const std::vector<TrainedOnSome>& parts) {
  std::vector<FactScalar> modules;
  for (const TrainedOnSome& one : parts) modules.emplace_back(one.module);
  return modules;
}

Finding finding_of(const TrainingDiffers& differs, const RankList& ranks) {
  Finding finding = finding_on(ranks, differs.step);
  finding.phase = Phase::kForward;
  finding.last_step = differs.last_step;
  finding.occurrences = differs.steps;
  return finding;
}
}  // namespace

void find_other_operators(const Cohort& cohort, Findings& findings) {
  const TrainingDiffers& differs = cohort.operators;
  // Dropout and batch norm are other operators in eval mode.
  if (!cohort.averages || differs.parts.empty() || !cohort.modes.parts.empty()) return;
  const std::vector<RankSide> sides = sides_of(differs.parts);
  Finding finding = finding_of(differs, sides.front().ranks);
  finding.severity = Severity::kNote;
  finding.module_path = deepest_module(differs.parts);
  finding.what =
      fmt::format("operators of the losses differ between ranks: {} (operators)", words_of(sides));
  finding.why = fmt::format(
      "so in each of {} that were surveyed, the last of them step {}: the ranks average gradients "
      "of different functions of the same parameters",
      counted(differs.steps, "step"), differs.last_step);
  finding.fixes = {
      {"build layers, their options and the loss alike on every rank", kLikely},
      {"none, where each rank has a task or a part of the loss of its own", kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("operators")},
                   {fact::kOnlyOnRanks, per_side(sides)},
                   {fact::kMinorityRanks, as_fact(finding.ranks)}};
  findings.push_back(std::move(finding));
}

void find_other_modes(const Cohort& cohort, Findings& findings) {
  const TrainingDiffers& differs = cohort.modes;
  if (!cohort.averages || differs.parts.empty()) return;
  const RankList& ranks = differs.parts.front().ranks;
  std::vector<TrainedOnSome> alike = differs.parts;
  std::erase_if(alike, [&ranks](const TrainedOnSome& one) { return one.ranks != ranks; });
  Finding finding = finding_of(differs, ranks);
  finding.severity = Severity::kWarning;
  finding.module_path = deepest_module(alike);
  const auto count = static_cast<std::int64_t>(alike.size());
  finding.what = fmt::format(
      "{} ({} the first) {} in eval mode on {} and in training mode on the others (rank_differs)",
      counted(count, "layer"), alike.front().module.empty() ? "the root" : alike.front().module,
      count == 1 ? "is" : "are", rank_words(ranks));
  finding.why = fmt::format(
      "so in each of {} that were looked at, up to step {}: dropout and batch norm compute "
      "something else "
      "in eval mode, and the ranks average the gradients",
      counted(differs.steps, "step"), differs.last_step);
  finding.fixes = {{"call train() of the model on every rank before it trains", kLikely}};
  finding.facts = {{fact::kCause, std::string("rank_differs")},
                   {fact::kModules, modules_in(alike)},
                   {fact::kModulesCount, count},
                   {fact::kRankPatterns, per_side({{"eval", ranks}})}};
  findings.push_back(std::move(finding));
}

}  // namespace ddpscope
