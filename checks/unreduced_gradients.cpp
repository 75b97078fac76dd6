#include "checks/unreduced_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "checks/finding_text.h"
#include "checks/local_updates.h"
#include "checks/own_parts.h"
#include "checks/parameter_drift.h"
#include "checks/rank_sides.h"
#include "checks/reduction_text.h"
#include "checks/unreduced_text.h"
#include "checks/wrong_scale_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kInARow = 2;

/// Each rank steps with what had arrived, and what came in between reduced the weights.
bool are_of_weights(const ReductionStep& step) {
  return step.of_parameters && step.reduces_last && step.as_they_arrived == step.sampled &&
         step.grew_after == 0;
}

/// Empty where collectives changed every gradient, and yet not to the same on all ranks.
std::string cause_of(const ReductionStep& step) {
  const bool are_unchanged = step.as_they_arrived == step.sampled;
  if (step.second_order && (step.is_alone() || are_unchanged)) return "second_order";
  if (step.is_alone() || step.with_itself || are_of_weights(step)) return "none_seen";
  const bool are_some = step.differing < step.sampled;
  if (are_some && (step.as_they_arrived > 0 || !step.reduces_last)) return "subset";
  if (!step.reduces_last || (are_unchanged && step.grew_after > 0)) return "early";
  if (step.as_they_arrived == 0) return "";
  return are_unchanged && step.may_be_copies ? "copy_reduced" : "subset";
}

bool has_silent_ranks(const ReductionStep& step) {
  return !step.silent.empty() && !step.is_alone();
}

/// They take part in no step.
bool are_no_members(const Cohort& cohort, const ReductionStep& step) {
  return std::ranges::all_of(cohort.reductions, [&step](const ReductionStep& other) {
    return other.calls == 0 || other.silent == step.silent;
  });
}

std::string why_silent(const ReductionStep& step, bool are_no_members) {
  const std::string ranks = rank_words(step.silent);
  if (are_no_members) {
    return fmt::format(
        "{} issued no collective in any step, and others up to {} in this one: no member of their "
        "group, or not asked to average",
        ranks, step.calls);
  }
  return fmt::format(
      "{} issued no collective in that step, and others up to {}: the next calls of {} meet "
      "those of that step on the others",
      ranks, step.calls, step.silent.size() == 1 ? "this rank" : "these ranks");
}

std::vector<Fix> fixes_for_silent(bool are_no_members) {
  if (are_no_members) {
    return {{"average over a process group of all ranks, on all of them", kLikely}};
  }
  return {{"issue the same collectives on every rank in each step; a rank that has nothing to add "
           "brings zeros",
           kLikely},
          {"leave out the step on all ranks: reduce the flag that decides it first", kLikely}};
}

/// The first of them in which the ranks exchanged gradients, as the first may have nothing to
/// average yet; else in which they exchanged anything, else the first.
const ReductionStep& telling_step(const ReductionRun& run) {
  const auto first_of = [&run](const auto& is_telling) -> const ReductionStep* {
    const auto* const step = std::find_if(run.first, run.last, is_telling);
    return is_telling(*step) ? step : nullptr;
  };
  const auto exchanges = [](const ReductionStep& step) { return !step.is_alone(); };
  if (const ReductionStep* const step = first_of(exchanges)) return *step;
  const ReductionStep* const calls = first_of([](const auto& step) { return step.calls > 0; });
  return calls == nullptr ? *run.first : *calls;
}

/// Of local updates: not one of those in which the weights are exchanged.
const ReductionStep& first_alone(const ReductionRun& run) {
  const auto alone = std::find_if(run.first, run.last, std::mem_fn(&ReductionStep::is_alone));
  return alone == run.last ? *run.first : *alone;
}

/// Steps that ranks which average left out now and then, as the last of an epoch.
ReductionRun left_out_of(const Cohort& cohort) {
  ReductionRun found;
  const auto is_reduced = [](const ReductionStep& step) {
    return step.differing == 0 && !step.is_alone();
  };
  if (!cohort.averages || std::ranges::none_of(cohort.reductions, is_reduced)) return found;
  for (const ReductionStep& step : cohort.reductions) {
    if (!was_left_out(step)) continue;
    if (found.steps++ == 0) found.first = &step;
    found.last = &step;
  }
  return found;
}

std::string now_and_then_words(const ReductionRun& run, const Cohort& cohort) {
  return fmt::format("; so in {} of {}, the last of them step {}", run.steps,
                     counted(std::ssize(cohort.reductions), "compared step"), run.last->step);
}

/// What has the sizes of the gradients and makes no replicas equal is hardly of something else; nor
/// is it of weights what one rank gathers and has other sizes.
bool is_hardly_else(const ReductionStep& step) {
  return step.may_be_copies ? step.reduce != ReduceKind::kNone : step.to_one_rank;
}

/// All ranks were given copies that none steps with, and no step made their parameters equal again.
bool are_dropped(const ReductionStep& step, const std::string& cause, const Cohort& cohort) {
  return (cause == "copy_reduced" || are_of_weights(step)) && step.to_all &&
         !has_silent_ranks(step) && cohort.equal_steps.size() < 2 &&
         cohort.partly_equal_steps.empty();
}

/// In each step of equal replicas all gradients changed, most to others on each rank, beside what
/// each rank was given of all; and the parameters were never equal again.
bool are_never_equal(const Cohort& cohort, const std::string& cause) {
  constexpr std::ptrdiff_t kStepsApart = 8;
  const bool have_parted = cause.empty() && severity_in(cohort) == Severity::kNote &&
                           cohort.equal_at_start && cohort.equal_steps.size() < 2 &&
                           cohort.partly_equal_steps.empty();
  const auto is_of_it = [](const ReductionStep& step) {
    return 2 * step.differing > step.sampled && step.as_they_arrived == 0 && step.reduces_last &&
           step.to_all && !step.is_alone() && step.silent.empty();
  };
  return have_parted && std::ssize(cohort.reductions) >= kStepsApart &&
         std::ranges::all_of(cohort.reductions, is_of_it);
}

/// What equal replicas hardly mean.
bool are_misplaced(const ReductionStep& step, const std::string& cause, const Cohort& cohort) {
  const bool is_early = cause == "early" && is_hardly_else(step) && !has_silent_ranks(step);
  return cohort.equal_at_start &&
         (is_early || are_dropped(step, cause, cohort) || is_left_on_one_rank(step, cause) ||
          are_never_equal(cohort, cause));
}

Severity severity_beside(const Cohort& cohort, const Cohort* like, bool is_misplaced) {
  if (like != nullptr) return Severity::kError;
  return std::max(severity_in(cohort), is_misplaced ? Severity::kWarning : Severity::kNote);
}

/// What steps tell whatever the cause, by one of them.
Finding finding_of(const ReductionRun& run, const ReductionStep& step, const Cohort& cohort,
                   const std::string& cause) {
  Finding finding = finding_on(cohort.ranks, run.first->step);
  finding.phase = Phase::kReduce;
  finding.model = step.first_differing.model;
  finding.module_path = step.differing_module;
  if (step.differing == 1) {
    set_place(finding, step.first_differing.model, step.first_differing.path);
  }
  finding.last_step = run.last->step;
  finding.occurrences = run.steps;
  finding.what =
      fmt::format("{} of {} differ{} between ranks at step(){}", step.differing,
                  counted(step.sampled, "sampled gradient"), step.differing == 1 ? "s" : "",
                  cause.empty() ? "" : " (" + cause + ")");
  finding.facts = {{fact::kDifferingCount, step.differing},
                   {fact::kSampledCount, step.sampled},
                   {fact::kCollectivesSinceStepCount, step.calls},
                   {fact::kLargestRelativeDifference, step.largest_difference}};
  if (!cause.empty()) finding.facts.insert(finding.facts.begin(), {fact::kCause, cause});
  if (!step.factors.empty()) {
    finding.facts.push_back({fact::kValuePerRank, per_side(step.factors)});
  }
  if (!step.silent.empty()) finding.facts.push_back({fact::kSilentRanks, as_fact(step.silent)});
  if (!step.first_differing.path.empty()) {
    finding.facts.push_back({fact::kFirstPath, step.first_differing.path});
  }
  return finding;
}
}  // namespace

bool was_left_out(const ReductionStep& step) {
  const bool is_counted =
      (step.backwards > 0 || step.is_counted) && step.backwards_per_rank.empty();
  return step.differing > 0 && is_counted &&
         (step.calls == 0 || !step.reduces_last || !step.factors.empty());
}

void find_unreduced(const Cohort& cohort, const Cohort* like, bool is_live, Findings& findings) {
  const auto differ = [](const ReductionStep& step) { return step.differing > 0; };
  const ReductionRun lasting = first_run_of(cohort.reductions, kInARow, differ);
  const ReductionRun run = lasting.first != nullptr ? lasting : left_out_of(cohort);
  if (run.first == nullptr || are_apart(cohort, run.first->step)) return;
  const LocalUpdates local = local_updates(cohort, *run.first);
  if (is_live && local.kind == LocalUpdates::Kind::kMaybe) return;
  const ReductionStep& step = local.kind != LocalUpdates::Kind::kNone ? first_alone(run)
                              : lasting.first == nullptr              ? *run.first
                                                                      : telling_step(run);
  const std::string cause = cause_of(step);
  Finding finding = finding_of(run, step, cohort, cause);
  // Ranks that exchange in other steps may average weights after other numbers of them.
  const bool is_silent = has_silent_ranks(step);
  const bool is_misplaced = are_misplaced(step, cause, cohort);
  finding.severity = severity_beside(cohort, like, is_misplaced);
  const bool is_outside = is_silent && are_no_members(cohort, step);
  finding.why = is_silent ? why_silent(step, is_outside) : why_unreduced(step, cause);
  if (like != nullptr) {
    finding.why += "; of as many replicas " + rank_words(like->ranks) + " average theirs";
  } else if (!is_misplaced) {
    finding.why += severity_words(cohort);
  }
  if (are_never_equal(cohort, cause))
    finding.why += "; so in each compared step, and the parameters were equal in no later one";
  if (lasting.first == nullptr) finding.why += now_and_then_words(run, cohort);
  if (step.step != run.first->step) {
    finding.why = fmt::format("of step {}: {}", step.step, finding.why);
  }
  finding.fixes =
      is_silent ? fixes_for_silent(is_outside) : fixes_for_unreduced(step, cause, cohort);
  if (is_silent && finding.severity == Severity::kNote) {
    finding.fixes.push_back(
        {"none, where the ranks average their weights after other numbers of steps",
         kNeedsDecision});
  }
  tell_meant(cohort, local, step.differs_by_part, finding);
  if (are_of_routed_parts(step, cohort)) tell_routed_parts(finding);
  findings.push_back(std::move(finding));
}

namespace {
/// Whether groups of a part of the ranks divide by the number of all of them.
bool are_divided_by_all(const RanksComparedEvent& run) {
  constexpr std::int64_t kScaledSteps = 3;
  return std::ranges::any_of(run.cohorts, [&run](const Cohort& cohort) {
    const auto share =
        static_cast<double>(cohort.ranks.size()) / static_cast<double>(run.world_size);
    const auto is_divided = [share](const ReductionStep& step) {
      // Gradients may be divided by the number of backwards.
      const bool is_period =
          step.backwards > 1 && is_same_ratio(share, 1.0 / static_cast<double>(step.backwards));
      return step.differing == 0 && step.ratio.has_value() && !is_period &&
             is_same_ratio(*step.ratio, share);
    };
    return cohort.averages && cohort.ranks.size() > 1 && share < 1 &&
           first_run_of(cohort.reductions, kScaledSteps, is_divided).first != nullptr;
  });
}
}  // namespace

void find_split(const RanksComparedEvent& run_of_all, Findings& findings) {
  if (!run_of_all.apart) return;
  const Cohort& apart = *run_of_all.apart;
  const auto by_part = [](const ReductionStep& step) {
    return step.differing > 0 && step.differs_by_part;
  };
  const ReductionRun run = first_run_of(apart.reductions, kInARow, by_part);
  if (run.first == nullptr) return;
  Finding finding = finding_of(run, *run.first, apart, "split");
  const bool are_alone =
      std::ranges::all_of(apart.parts, [](const RankList& part) { return part.size() == 1; });
  const bool are_of_all = are_divided_by_all(run_of_all);
  finding.severity = are_alone || are_of_all ? Severity::kWarning : Severity::kNote;
  finding.why =
      "all ranks began as equal replicas, and nothing was exchanged since but within smaller "
      "groups";
  if (are_alone) finding.why += ", of one rank each";
  finding.fixes = {{"average over a process group of all ranks", kNeedsDecision}};
  if (are_of_all) {
    finding.why += fmt::format(
        "; each of them divides by the {} ranks of the run: the sum was to be over all of these",
        run_of_all.world_size);
  } else if (!are_alone) {
    tell_meant(apart, /*local=*/{}, /*by_part=*/true, finding);
  }
  findings.push_back(std::move(finding));
}

}  // namespace ddpscope
