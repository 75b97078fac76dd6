#include "checks/averaged_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "checks/rank_sides.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;

const Fix kDeclare = {
    "declare them if each rank is to have its own: Attachment::declare with kRankLocal",
    kNeedsDecision};

const Fix kTakeOver = {"copy what is received into the parameters: `p.data().copy_(part)`",
                       kLikely};

Finding about(const ValuesDiffer& values) {
  Finding finding = finding_on(all_of(values.sides), values.step);
  finding.module_path = values.module_path;
  if (!values.tensors.empty()) finding.model = values.tensors.front().model;
  if (values.tensors.size() == 1) {
    set_place(finding, values.tensors.front().model, values.tensors.front().path);
  }
  finding.facts = {{fact::kCause, std::string("not_averaged")},
                   {fact::kFirstBadStep, values.step},
                   {fact::kDifferingCount, values.differing}};
  if (!values.tensors.empty()) {
    finding.facts.push_back({fact::kFirstPath, values.tensors.front().path});
  }
  return finding;
}

/// Of ranks that leave the steps to others.
Finding not_sent(const ValuesDiffer& values) {
  const bool are_all = values.differing == values.compared;
  const std::string led = rank_words(values.sides.front().ranks);
  const std::string leading = rank_words(values.sides.back().ranks);
  Finding finding = about(values);
  finding.what =
      fmt::format("{} of {} parameters stay{} as at the start on {}, while {} {}{} (not_averaged)",
                  values.differing, values.compared, values.differing == 1 ? "s" : "", led, leading,
                  values.sides.back().ranks.size() == 1 ? "trains" : "train",
                  are_all ? "" : " and the others are sent");
  finding.why = fmt::format(
      "{} no optimizer, and gradients are computed there with the values of the start; {}",
      led + (values.sides.front().ranks.size() == 1 ? " steps" : " step"),
      are_all ? "as many elements as the parameters have are received there in each step, and none "
                "of it comes into them"
              : "whatever else is trained has the values of " + leading + " again and again");
  finding.fixes = {are_all ? kTakeOver : Fix{"send these with the others", kLikely}, kDeclare};
  return finding;
}

Finding left_out(const ValuesDiffer& values, const Cohort& cohort) {
  const auto& steps = cohort.partly_equal_steps;
  Finding finding = about(values);
  finding.what = fmt::format(
      "{} of {} parameters still differ{} between ranks when step {} began and others were equal "
      "again (not_averaged)",
      values.differing, values.compared, values.differing == 1 ? "s" : "", values.step);
  finding.why = fmt::format(
      "the ranks average their weights now and then, which made the others equal in {}, the last "
      "step {}; these were not in any of them",
      counted(std::ssize(steps), "compared step"), steps.back());
  finding.fixes = {{"average these with the others", kLikely}, kDeclare};
  return finding;
}

constexpr std::ptrdiff_t kSums = 3;
constexpr std::ptrdiff_t kDropped = 3;
constexpr std::ptrdiff_t kSent = 8;  // a choice falls on one rank by chance

/// Of which nothing came back, whatever they were for.
Finding dropped(const Cohort& cohort) {
  const std::int64_t step = cohort.dropped_steps.front();
  Finding finding = finding_on(cohort.ranks, step);
  finding.what = fmt::format(
      "the parameters still differ between ranks when step {} began, though as many elements as "
      "they have were reduced over all ranks before it (not_averaged)",
      step);
  finding.why = fmt::format(
      "so in {}; in each compared step the parameters of a rank moved by what SGD makes of its own "
      "gradients and by nothing else: what was reduced, as a copy of the weights, never came back",
      counted(std::ssize(cohort.dropped_steps), "step"));
  finding.fixes = {{"reduce `p.data()` itself and divide it, or copy the mean back", kLikely},
                   {"none, where the mean is only looked at, as to evaluate it", kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("not_averaged")}, {fact::kFirstBadStep, step}};
  return finding;
}

Finding summed(const Cohort& cohort) {
  const std::int64_t step = cohort.summed_steps.front();
  Finding finding = finding_on(cohort.ranks, step);
  finding.what = fmt::format(
      "the parameters, equal again when step {} began, were the sum of those of {} ranks and not "
      "the mean (summed)",
      step, cohort.ranks.size());
  finding.why = fmt::format(
      "so it was in all {} steps in which they were equal again and of which it is known what the "
      "ranks had a step before: the weights grow each time",
      cohort.summed_steps.size());
  finding.fixes = {{"divide the weights by the number of ranks after the all-reduce", kLikely}};
  finding.facts = {{fact::kCause, std::string("summed")}, {fact::kFirstBadStep, step}};
  return finding;
}

Finding sent_by_one(const Cohort& cohort) {
  const std::int64_t step = cohort.sent_steps.front();
  Finding finding = finding_on(cohort.ranks, step);
  finding.what = fmt::format(
      "the parameters, equal again when step {} began, were those of rank {} alone (not_averaged)",
      step, cohort.sender);
  finding.why = fmt::format(
      "so in {}: each rank trains on batches of its own, nothing but broadcasts of rank {} goes "
      "between them, and what the others trained is lost each time",
      counted(std::ssize(cohort.sent_steps), "step"), cohort.sender);
  finding.fixes = {{"all-reduce the weights and divide them by the number of ranks, in place of "
                    "the broadcast",
                    kLikely},
                   {"none, where the others train to be measured alone", kNeedsDecision}};
  finding.facts = {{fact::kCause, std::string("not_averaged")}, {fact::kFirstBadStep, step}};
  return finding;
}

/// Weights that were equal every so many steps, and are no more.
struct Lost {
  std::int64_t last_equal = 0;
  std::int64_t period = 0;
  std::int64_t missed = 0;  ///< compared steps in which they were due
};

std::optional<Lost> lost_average(const Cohort& cohort, bool is_live) {
  // A period may have become longer while they train.
  const std::int64_t told_from = is_live ? 16 : 3;
  const auto& equal = cohort.equal_steps;
  if (cohort.averages || equal.size() < 3 || cohort.unequal_steps.empty()) return std::nullopt;
  const std::int64_t last = equal.back();
  const std::int64_t before = equal[equal.size() - 2];
  const std::int64_t period = last - before;
  // The first average follows the first step, whose start is counted as step 0.
  const std::int64_t first = equal[equal.size() - 3];
  const bool is_regular = before - first == period || (first == 0 && before == period + 1);
  const auto& unequal = cohort.unequal_steps;
  const bool has_parted =
      std::ranges::any_of(unequal, [&](std::int64_t step) { return step > before && step < last; });
  if (!is_regular || !has_parted) return std::nullopt;
  Lost lost{.last_equal = last, .period = period};
  for (const std::int64_t step : unequal) {
    lost.missed += step > last && (step - last) % period == 0;
  }
  if (lost.missed < told_from) return std::nullopt;
  return lost;
}

Finding lost_finding(const Lost& lost, const Cohort& cohort) {
  const std::int64_t step = lost.last_equal + lost.period;
  Finding finding = finding_on(cohort.ranks, step);
  for (const ValuesDiffer& values : cohort.values) {
    if (values.of_buffers || values.tensors.empty()) continue;
    finding.model = values.tensors.front().model;
    finding.module_path = values.module_path;
  }
  finding.what = fmt::format(
      "the parameters, equal again every {} steps until step {}, still differ between ranks when "
      "step {} began (no_longer_averaged)",
      lost.period, lost.last_equal, step);
  finding.why = fmt::format(
      "the ranks average their weights now and then; in {} since then in which that was due it "
      "made them equal no more, as where a rank changes them afterwards, averages other values, or "
      "no longer takes part",
      counted(lost.missed, "compared step"));
  finding.fixes = {{"give the average and what follows from it the same inputs on all ranks: a "
                    "momentum, a reference copy or a schedule that one rank has lost or restored",
                    kLikely},
                   {"broadcast the weights of one rank after the average", kLikely}};
  finding.facts = {{fact::kCause, std::string("no_longer_averaged")},
                   {fact::kFirstBadStep, step},
                   {fact::kLastEqualStep, lost.last_equal}};
  return finding;
}
}  // namespace

bool tell_averaged_weights(const Cohort& cohort, bool is_live, Findings& findings) {
  const auto add = [&findings](Finding finding) {
    finding.severity = Severity::kWarning;
    findings.push_back(std::move(finding));
    return true;
  };
  if (cohort.never_sent) return add(not_sent(*cohort.never_sent));
  if (std::ssize(cohort.summed_steps) >= kSums) return add(summed(cohort));
  if (std::ssize(cohort.dropped_steps) >= kDropped) return add(dropped(cohort));
  if (std::ssize(cohort.sent_steps) >= kSent) return add(sent_by_one(cohort));
  if (cohort.never_averaged) return add(left_out(*cohort.never_averaged, cohort));
  const auto lost = lost_average(cohort, is_live);
  return lost && add(lost_finding(*lost, cohort));
}

}  // namespace ddpscope
