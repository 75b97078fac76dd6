#include "checks/parameter_text.h"

#include <fmt/format.h>

#include "checks/optimizer_text.h"
#include "checks/own_parts.h"
#include "checks/parameter_drift.h"
#include "checks/rank_sides.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
std::string words_of_steps(const ValuesDiffer& values) {
  if (values.step == 0) return "before the first step";
  if (values.equal_until < 0) return fmt::format("when step {} began", values.step);
  if (values.are_new) {
    return fmt::format("when step {} began and were registered after step {}", values.step,
                       values.step - 1);
  }
  return fmt::format("when step {} began and were equal {}", values.step,
                     values.equal_until == 0
                         ? "before the first"
                         : fmt::format("when step {} began", values.equal_until));
}
}  // namespace

std::string what_parameters_differ(const ValuesDiffer& values, const std::string& cause,
                                   bool is_rounding) {
  const std::string count =
      values.compared == 0 ? "the parameters"
                           : fmt::format("{} of {} parameters", values.differing, values.compared);
  const std::string by =
      is_rounding ? fmt::format("by {:.1e} of their norm ", values.estimate.front().relative) : "";
  return fmt::format("{} differ between ranks {}{}{} ({})", count, by, words_of_steps(values),
                     are_frozen(values) ? ", none of which is trained" : "", cause);
}

namespace {
std::string words_of_load(const LoadedOnSome& load) {
  const bool is_one = load.ranks.size() == 1;
  return fmt::format(
      "only {} read parameters from an archive, in step {}: the others do not have what came with "
      "{}, as the state of the optimizer",
      rank_words(load.ranks), load.step, is_one ? "them there" : "them");
}

std::string words_of_drift(const ValuesDiffer& values, const std::string& input,
                           const Cohort& cohort) {
  if (const LoadedOnSome* load = load_on_some(values, cohort)) return words_of_load(*load);
  if (!input.empty()) return fmt::format("the ranks differed in their {} first", input);
  if (is_rounding_of(values, cohort)) {
    return fmt::format(
        "all ranks stepped with equal gradients; {} differs by {:.1e}, no more than rounding does, "
        "as where each rank adds something of its own to its parameters and takes it off again{}",
        values.estimate.front().path, values.estimate.front().norm,
        are_equal_again(values, cohort) ? "; later they were equal again" : "");
  }
  if (had_equal_gradients(values, cohort)) {
    return "all ranks stepped with equal gradients: something changed the parameters or the "
           "optimizer's state of some ranks alone";
  }
  return "something changed the parameters or the optimizer's state of some ranks alone, or their "
         "gradients were not the same when it stepped";
}
}  // namespace

std::string why_parameters_differ(const ValuesDiffer& values, const std::string& input,
                                  const Cohort& cohort) {
  const std::string seen =
      may_be_own_parts(values) ? why_own_parts()
      : were_broadcast(values, cohort)
          ? "broadcasts of as many elements ran before: of other tensors than these, or some ranks "
            "changed these afterwards, as by a checkpoint that one rank loads"
      : values.are_new ? "each process draws the initial values of what it registers later, too, "
                         "and nothing made these equal before the first step with them"
      : values.step == 0
          ? "each process draws its own initial values, and no broadcast made them equal"
      : values.runs_on_all
          ? "the program changed them on some ranks alone, and all ranks run them before their "
            "backwards, as the target of a loss"
      : are_frozen(values)
          ? "the program changed them on some ranks alone, as an average of weights that one rank "
            "keeps"
          : words_of_drift(values, input, cohort);
  return seen + severity_words(cohort);
}

namespace {
struct InputWords {
  std::string_view input;
  std::vector<DigestField> fields;
  const char* words;
};

/// What optimizers differ in, whether rank-optimizer-differs tells of it or not.
Fix fix_of_optimizers(const std::string& input, const Cohort& cohort) {
  using enum DigestField;
  static const std::vector<InputWords> all = {
      {"skip", {kSkippedSteps, kOptimizerSteps}, "let every rank make the same steps"},
      {"lr", {kLearningRate}, "give all ranks the same learning rate in each step"},
      {"state", {kState}, "give the optimizers of all ranks the same state"},
      {"options", {kOptimizers, kMembers}, "give the optimizers of all ranks the same options"}};
  const auto found = std::ranges::find(all, input, &InputWords::input);
  const bool is_told = std::ranges::any_of(cohort.digests, [&](const DigestsDiffer& differ) {
    return std::ranges::count(found->fields, differ.field) > 0 && is_lasting(differ);
  });
  return {is_told ? "make equal on all ranks what rank-optimizer-differs tells of" : found->words,
          Applicability::kLikely};
}

std::vector<Fix> fixes_for_drift(const ValuesDiffer& values, const std::string& input,
                                 const Cohort& cohort) {
  using enum Applicability;
  if (input == kByLoad) {
    return {{"load the checkpoint, and the optimizer's state in it, on every rank", kSafe},
            {"broadcast all of that from the rank that loaded it", kLikely}};
  }
  if (!input.empty() && input != kByGradient) {
    return {fix_of_optimizers(input, cohort)};
  }
  const Fix alike = {"change parameters by hand on all ranks alike, or broadcast them afterwards",
                     kLikely};
  const Fix declared = {
      "declare what differs on purpose: Attachment::declare with kRankLocal or kSharded",
      kNeedsDecision};
  if (is_rounding_of(values, cohort)) {
    return {{"keep a copy of parameters that are moved for a while, and copy it back", kLikely},
            alike,
            declared};
  }
  if (had_equal_gradients(values, cohort)) {
    return {alike,
            {"load a checkpoint, and the optimizer's state in it, on every rank", kLikely},
            declared};
  }
  return {{"average every gradient over all ranks before each optimizer step; for a step with a "
           "closure, in it",
           kLikely},
          alike,
          declared};
}
}  // namespace

std::vector<Fix> fixes_for_parameters(const ValuesDiffer& values, const std::string& input,
                                      const Cohort& cohort) {
  using enum Applicability;
  if (may_be_own_parts(values)) return fixes_for_own_parts(values);
  if (were_broadcast(values, cohort)) {
    return {{"broadcast every parameter and buffer of rank 0 after the last change of them, right "
             "before the first step",
             kSafe},
            {"load the checkpoint on every rank", kLikely}};
  }
  if (values.are_new) {
    return {{"broadcast what is registered later from rank 0 before the first step with it", kSafe},
            {"seed every rank alike before it is made", kLikely}};
  }
  if (values.runs_on_all) {
    return {{"change them on all ranks alike, or broadcast them after each change", kLikely}};
  }
  if (values.step > 0 && are_frozen(values)) {
    return {{"none, if the other ranks do not use them; else broadcast them", kNeedsDecision}};
  }
  if (values.step == 0) {
    return {{"broadcast every parameter and buffer of rank 0 after the model is built", kSafe},
            {"seed every rank alike before the model is built", kLikely}};
  }
  return fixes_for_drift(values, input, cohort);
}

}  // namespace ddpscope
