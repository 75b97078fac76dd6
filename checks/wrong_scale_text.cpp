#include "checks/wrong_scale_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "checks/call_text.h"
#include "checks/finding_text.h"
#include "checks/other_divisor.h"
#include "checks/rank_sides.h"
#include "checks/reduction_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
using enum Applicability;

namespace {
bool is_other_operation(const ReductionStep& step) {
  return step.reduce != ReduceKind::kNone && step.reduce != ReduceKind::kSum &&
         step.reduce != ReduceKind::kAverage && step.reduce != ReduceKind::kOther;
}
}  // namespace

bool is_of_one_rank(const ReductionStep& step) {
  return step.of_one_rank > 0 && step.of_one_rank == step.sampled;
}

bool is_same_ratio(double value, double wanted) {
  constexpr double kSameRatio = 0.02;
  return std::abs(value - wanted) <= kSameRatio * std::abs(wanted);
}

namespace {
/// The sum over some ranks was divided by the number of all.
bool is_divided_by_world(const ReductionStep& step, const ReductionScope& scope) {
  const auto share = static_cast<double>(scope.ranks) / static_cast<double>(scope.world);
  return share < 1 && step.ratio.has_value() && is_same_ratio(*step.ratio, share);
}
}  // namespace

std::string wrong_scale_what(const ReductionStep& step, std::string_view cause, std::size_t ranks) {
  if (cause == "lost") {
    return fmt::format(
        "{} of {} {} 0 on all {} ranks at step(), though each rank's own was not ({})", step.lost,
        counted(step.sampled, "sampled gradient"), step.lost == 1 ? "is" : "are", ranks, cause);
  }
  if (cause != "not_linear" && step.undivided > 0) {
    return fmt::format("{} of {} are {} × the mean over {} ranks, the others are the mean ({})",
                       step.undivided, counted(step.sampled, "reduced gradient"), ranks, ranks,
                       cause);
  }
  if (cause != "not_linear") {
    return fmt::format("reduced gradients are {:.3g} × the mean over {} ranks ({})",
                       step.ratio.value_or(0), ranks, cause);
  }
  if (step.differing > 0) {
    return fmt::format("{} of {} left the reduction with other bits on some rank (not_linear)",
                       step.differing, counted(step.sampled, "sampled gradient"));
  }
  if (is_of_one_rank(step)) {
    return fmt::format("{} on all {} ranks those that rank {} computed (not_linear)",
                       step.sampled == 1 ? "1 sampled gradient is"
                                         : counted(step.sampled, "sampled gradient") + " are",
                       ranks, step.that_rank);
  }
  if (step.not_linear > 1) {
    return fmt::format(
        "{} of {} are no multiple of the sum over {} ranks after the reduction (not_linear)",
        step.not_linear, counted(step.sampled, "sampled gradient"), ranks);
  }
  return fmt::format(
      "the reduced gradient is no multiple of the sum over {} ranks, by {:.2g} of its norm "
      "(not_linear)",
      ranks, step.residual);
}

namespace {
std::string why_not_linear(const ReductionStep& step, bool lasts) {
  if (is_of_one_rank(step)) {
    return calls_text(step.calls) +
           ", which sent them to the other ranks: what those computed is "
           "lost";
  }
  if (!step.backwards_per_rank.empty()) {
    return "the backwards before that step() were " + sides_text(step.backwards_per_rank) +
           ": some ranks left out a step(), or had other parts to add, and now step with the "
           "gradients of other batches";
  }
  if (lasts && is_other_operation(step)) {
    return fmt::format(
        "{}, and most of what they reduced they reduced by {}, not by sum or average",
        calls_text(step.calls), reduce_word(step.reduce));
  }
  if (lasts && step.to_one_rank) {
    return calls_text(step.calls) +
           ", some by reduce or gather to one rank: where another one than that steps, "
           "or "
           "sends it on, what reaches the optimizer is no sum; so is a part that was not reduced";
  }
  return lasts ? "something else than the sum reached the optimizer: a part that was not reduced, "
                 "another group, or a write before wait() had returned"
               : "the steps before and after it were right: what some ranks alone wrote to their "
                 "gradients, a write before wait() had returned, or memory or a link that fails";
}
}  // namespace

namespace {
/// Each rank divided by the number of ranks, and has the sum all the same.
bool is_summed_twice(const ReductionStep& step, std::size_t ranks) {
  return step.undivided == 0 && step.weight > 0 &&
         is_same_ratio(step.weight * static_cast<double>(ranks), 1);
}

std::string why_summed_twice(const ReductionStep& step, std::size_t ranks) {
  const std::string calls =
      step.times_reduced > 1
          ? fmt::format("{}, {} of each gradient", calls_text(step.calls), step.times_reduced)
          : calls_text(step.calls);
  return fmt::format(
      "{}, and the result was divided by the {} ranks once: what a second call adds up is the sum "
      "of all ranks already",
      calls, ranks);
}
}  // namespace

std::string wrong_scale_why(const ReductionStep& step, std::string_view cause, bool lasts,
                            const ReductionScope& scope) {
  if (cause == kOtherDivisor) {
    return fmt::format("{}, and {} over {} ranks is divided by {}", calls_text(step.calls),
                       is_divisor_seen(step) ? "what they summed up" : "what arrives of the sum",
                       scope.ranks, step.divisor);
  }
  if (cause == "sum_not_divided" && is_summed_twice(step, scope.ranks)) {
    return why_summed_twice(step, scope.ranks);
  }
  if (cause == "sum_not_divided") {
    const std::string first =
        step.undivided > 0 ? "; the first of these is " + step.first_undivided.path : "";
    return calls_text(step.calls) + ", and nothing divides by the number of ranks before step()" +
           first;
  }
  if (cause == "lost") {
    return fmt::format(
        "{} arrived as other values than 0 on all ranks, and what was copied back was 0, as where "
        "a buffer is filled or sent before all gradients of it are there: it is never trained",
        step.first_lost.path);
  }
  if (cause == "divided_twice" && is_divided_by_world(step, scope)) {
    const bool is_square = static_cast<std::int64_t>(scope.ranks * scope.ranks) == scope.world;
    return fmt::format("{} over {} of the {} ranks, and the result was divided by {}{}",
                       calls_text(step.calls), scope.ranks, scope.world, scope.world,
                       is_square ? fmt::format(", or by {} twice", scope.ranks) : "");
  }
  if (cause == "divided_twice") {
    return calls_text(step.calls) + ", and the result was divided by the number of ranks twice";
  }
  if (cause == "accumulation") {
    return fmt::format(
        "the loss is divided by the {} backwards of a step already, and their gradients are "
        "divided by {} once more",
        step.backwards, step.backwards);
  }
  return why_not_linear(step, lasts);
}

namespace {
std::vector<Fix> fixes_for_lost() {
  return {
      {"fill the buffer and start its collective once the last of its gradients is there", kLikely},
      {"none, where it is to be 0; requires_grad_(false) spares its backward", kNeedsDecision}};
}

std::vector<Fix> fixes_for_sum(const ReductionStep& step, const ReductionScope& scope,
                               const Fix& intended) {
  if (is_summed_twice(step, scope.ranks)) return {{"reduce each gradient once", kSafe}, intended};
  return {{"`grad.div_(world_size)` after wait()", kSafe},
          {"use the average as reduce operation", kSafe},
          intended};
}

std::vector<Fix> fixes_for_divisor(const ReductionScope& scope, const Fix& intended) {
  return {
      {fmt::format("divide by {}, the number of ranks that add up their gradients", scope.ranks),
       kLikely},
      intended};
}

std::vector<Fix> fixes_for_divided(const ReductionStep& step, const ReductionScope& scope,
                                   const Fix& intended) {
  if (!is_divided_by_world(step, scope)) {
    return {{"divide by the number of ranks once: the loss, or the gradient, or an averaging "
             "reduce operation",
             kSafe},
            intended};
  }
  return {{"average over a process group of all ranks, where they train one model", kLikely},
          {fmt::format("divide by the {} ranks of the group, not by the {} of the run, where each "
                       "group trains a model of its own",
                       scope.ranks, scope.world),
           kLikely},
          intended};
}
}  // namespace

std::vector<Fix> wrong_scale_fixes(const ReductionStep& step, std::string_view cause, bool lasts,
                                   const ReductionScope& scope) {
  const Fix intended = {"intended, with a scaled learning rate: suppress it with that reason",
                        kNeedsDecision};
  if (cause == kOtherDivisor) return fixes_for_divisor(scope, intended);
  if (cause == "sum_not_divided") return fixes_for_sum(step, scope, intended);
  if (cause == "divided_twice") return fixes_for_divided(step, scope, intended);
  if (cause == "accumulation") {
    return {{"divide by the number of backwards once: the loss or the gradient", kSafe}, intended};
  }
  if (cause == "lost") return fixes_for_lost();
  if (is_of_one_rank(step)) {
    return {
        {"all-reduce each gradient and divide by the number of ranks, in place of the broadcast",
         kSafe}};
  }
  if (!step.backwards_per_rank.empty()) {
    return {{"reduce the decision to leave out a step() with a maximum over the ranks", kLikely},
            {"as many backwards on each rank before a step()", kLikely}};
  }
  if (lasts && is_other_operation(step)) {
    return {{"reduce by `c10d::ReduceOp::SUM` and divide by the number of ranks", kSafe}, intended};
  }
  if (lasts) {
    return {{"wait() for every collective before its tensor is read or written", kLikely},
            {"reduce every element of every gradient over the same group", kLikely},
            {"intended, as what is compressed or added to the buffer that is sent: suppress it "
             "with that reason",
             kNeedsDecision}};
  }
  return {{"change averaged gradients on all ranks alike: reduce first what decides it", kLikely},
          {"wait() for every collective before its tensor is read or written", kLikely},
          {"check the memory and the links of the ranks' hosts", kNeedsDecision}};
}

void tell_parts_of_loss(const ReductionRun& run, Finding& finding) {
  if (!std::all_of(run.first, run.last + 1, std::mem_fn(&ReductionStep::shares_activations))) {
    return;
  }
  finding.severity = Severity::kNote;
  finding.why +=
      "; the ranks gave each other what their forwards computed: where each computes a part of one "
      "loss, the sum is its gradient";
  for (Fix& fix : finding.fixes) fix.applicability = kNeedsDecision;
  finding.fixes.insert(
      finding.fixes.begin(),
      {"none, where each rank computes a part of one loss, as of a sequence or of stages",
       kNeedsDecision});
}

std::vector<Fact> wrong_scale_facts(const ReductionStep& step, std::string_view cause,
                                    std::size_t ranks, const ReducedParameter& place) {
  std::vector<Fact> facts = {{fact::kCause, std::string(cause)},
                             {fact::kExpectedRatio, 1.0},
                             {fact::kResidualRatio, step.residual},
                             {fact::kPeriod, step.backwards},
                             {fact::kParametersCount, cause == "lost"      ? step.lost
                                                      : step.undivided > 0 ? step.undivided
                                                                           : step.sampled}};
  if (cause == "lost") facts.push_back({fact::kFirstPath, place.path});
  if (step.undivided > 0) {
    facts.push_back({fact::kFirstPath, place.path});
    facts.push_back({fact::kMeasuredRatio, static_cast<double>(ranks)});
  }
  if (!step.backwards_per_rank.empty()) {
    facts.push_back({fact::kValuePerRank, per_side(step.backwards_per_rank)});
  }
  if (step.ratio) facts.push_back({fact::kMeasuredRatio, *step.ratio});
  return facts;
}

}  // namespace ddpscope
