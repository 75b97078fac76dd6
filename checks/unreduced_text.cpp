#include "checks/unreduced_text.h"

#include <fmt/format.h>

#include <cfloat>

#include "checks/own_parts.h"
#include "checks/rank_sides.h"
#include "checks/reduction_text.h"

namespace ddpscope {
namespace {
using enum Applicability;

/// Collectives changed all of them, and the ranks differ in the last bits alone.
bool is_rounding(const ReductionStep& step, const std::string& cause) {
  const std::string& dtype = step.first_differing.dtype;
  const double precision = dtype == "float64" ? DBL_EPSILON : dtype == "float32" ? FLT_EPSILON : 0;
  constexpr double kSteps = 16;
  return cause.empty() && step.factors.empty() && step.largest_difference < kSteps * precision;
}

/// What came back is not of the backward that was last. Of a few elements it may look so.
bool is_of_others(const ReductionStep& step) {
  return !step.reduces_last && step.as_they_arrived == 0 && 2 * step.mixed > step.differing;
}

std::vector<Fix> fixes_for_early(const ReductionStep& step, const Fix& last, const Fix& all) {
  if (is_of_others(step)) {
    return {{"wait() for a collective before its result is copied to gradients", kLikely},
            {last.text, kLikely}};
  }
  return {last, all, {"none, where it is weights that are exchanged then", kNeedsDecision}};
}

std::string why_early(const ReductionStep& step, const std::string& calls) {
  if (is_of_others(step)) {
    return calls +
           ", before its last backward, and no rank steps with what that brought: with results of "
           "a collective, as one of a step before, that are read before its wait() has returned";
  }
  if (step.reduces_last) {
    return calls +
           ", those of these gradients before the last backward that reached them: what that added "
           "is not reduced";
  }
  if (step.backwards < 2) {
    return calls + ", and none after its backward had begun: what that adds is not reduced";
  }
  return fmt::format(
      "{} and {} backwards ran before step(): what the last of them added was not reduced", calls,
      step.backwards);
}

std::string why_none_seen(const ReductionStep& step, const std::string& calls) {
  if (step.with_itself) {
    return calls + ", over process groups of one rank each: each rank averaged with itself";
  }
  if (!step.is_alone()) {
    return calls +
           ", of the parameters themselves and not of their gradients: each rank steps with its "
           "own";
  }
  if (step.calls == 0) return calls;
  return calls + (step.brings_activations ? ", of what forwards computed and of few numbers alone"
                                          : ", of a few numbers alone");
}

std::string why_changed(const ReductionStep& step, const std::string& calls) {
  if (!step.factors.empty()) {
    return fmt::format(
        "{}, and each rank multiplied its gradients by a factor of its own, {}: after the average "
        "that parts the replicas, as a clip by the norm of its own gradients does",
        calls, sides_text(step.factors));
  }
  if (is_rounding(step, "")) {
    return fmt::format(
        "{}, and what they made of these gradients differs by {:.1e} of its norm: rounding, as "
        "where each rank adds the gradients of the ranks in another order",
        calls, step.largest_difference);
  }
  return calls +
         ", and each of these gradients changed on its way, to other values on other ranks: in "
         "calls of different gradients, or by what was written beside the calls or after them";
}

std::vector<Fix> fixes_for_parameters() {
  return {{"reduce `p.grad()` in place of `p`, between backward() and step()", kLikely},
          {"where weights are to be averaged: after step(), so that the replicas are equal then",
           kNeedsDecision}};
}
}  // namespace

bool is_left_on_one_rank(const ReductionStep& step, const std::string& cause) {
  return step.to_one_rank && cause != "early" && cause != "none_seen" && cause != "second_order";
}

std::string why_unreduced(const ReductionStep& step, const std::string& cause) {
  const std::string calls = calls_text(step.calls);
  if (cause == "none_seen") return why_none_seen(step, calls);
  if (cause == "second_order") {
    return calls +
           ", and the last backward before step() was autograd::grad() with create_graph: it "
           "returns gradients past all hooks that average them";
  }
  if (is_left_on_one_rank(step, cause)) {
    return calls + ", by reduce or gather to one rank: the others step with " +
           (cause.empty() ? "what it left them, which is no sum" : "what they had");
  }
  if (cause == "copy_reduced") {
    return calls +
           ", and each rank steps with the very gradients that had arrived: what was "
           "reduced never came back to grad()";
  }
  if (cause == "early") return why_early(step, calls);
  if (cause.empty()) return why_changed(step, calls);
  if (step.as_they_arrived > 0) {
    return fmt::format(
        "{}, and {} is as it had arrived on some rank: in no call, not copied back or not waited "
        "for",
        calls, step.first_differing.path);
  }
  return fmt::format("{}, which did not reach {} on every rank", calls, step.first_differing.path);
}

std::vector<Fix> fixes_for_unreduced(const ReductionStep& step, const std::string& cause,
                                     const Cohort& cohort) {
  if (is_left_on_one_rank(step, cause)) {
    return {{"all-reduce in place of reduce or gather", kSafe},
            {"broadcast the result from that rank before step()", kSafe}};
  }
  if (cause == "second_order") {
    return {{"reduce what autograd::grad() returns, before the optimizer steps with it", kSafe},
            {"backward() in place of autograd::grad(), where hooks average", kLikely}};
  }
  if (step.with_itself) {
    return {{"average over a process group of all ranks: give it the number of ranks", kSafe}};
  }
  if (cause == "none_seen" && !step.is_alone()) return fixes_for_parameters();
  const Fix last = {"reduce once, after the last backward before step()", kSafe};
  const Fix all = {"reduce the gradient of every parameter that the optimizer steps", kSafe};
  const Fix back = {"copy reduced tensors back: `p.mutable_grad().copy_(bucket)`", kSafe};
  if (cause == "copy_reduced") return {back, {"reduce `p.grad()` itself, in place", kLikely}};
  if (cause == "early") return fixes_for_early(step, last, all);
  if (cause.empty() && !step.factors.empty()) {
    return {{"compute the factor on all ranks from the averaged gradients", kLikely},
            {"apply a weight of a rank to its loss, or before the average", kNeedsDecision}};
  }
  if (is_rounding(step, cause)) {
    return {{"add in one order on all ranks: that of the ranks, from 0 on", kSafe},
            {"all-reduce, which gives all ranks the same bits", kSafe}};
  }
  const ValuesDiffer* own = own_parts_with(step.first_differing.path, cohort);
  const Fix alike = {"if all ranks are to have the same: reduce these gradients as the others",
                     kLikely};
  const bool may_be_own = own != nullptr && (cause.empty() || cause == "subset");
  if (may_be_own) return {alike, declare_own_parts(*own)};
  if (cause.empty()) {
    return {
        {"give each call the same gradient on all ranks, wait for it, and change gradients "
         "afterwards on all ranks alike",
         kLikely}};
  }
  return cause == "subset" ? std::vector<Fix>{all, back} : std::vector<Fix>{all, last};
}

}  // namespace ddpscope
