#include "checks/missing_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checks/finding_text.h"
#include "checks/fixed_models.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;

constexpr std::string_view kAwaited = "not_ready";
constexpr char kReached[] = "reached";
constexpr char kCloned[] = "cloned";
constexpr char kReadEarly[] = "read_early";
constexpr char kUsedBefore[] = "used_before";
constexpr char kNotLeaf[] = "not_leaf";

struct MissingWords {
  std::string why;  ///< `{}`: the operator at which the path ends
  std::vector<Fix> fixes = {};
};

/// Where the cause is not decided.
MissingWords undecided_words(const std::string& cause) {
  return std::map<std::string, MissingWords>{
      {"not_ready",
       {"no gradient of them came in this backward; candidates: not_used, grad_mode_off, "
        "output_not_in_loss, result_dropped; operators are recorded in some steps only",
        {{"use them in each forward, or leave them out of the list", kNeedsDecision}}}},
      {kReached,
       {"they ran, and a backward reached them, but no gradient came of it, as in "
        "autograd::grad(); candidates: output_not_in_loss, function_returned_nothing",
        {{"let the loss depend on the output", kLikely},
         {"requires_grad_(false), if they are to stay as they are", kLikely}}}},
      {"",
       {"candidates: not_used, grad_mode_off, output_not_in_loss, result_dropped; not recorded: "
        "operators are in the first 3 cycles, in 3 after another set of parameters trains, and in "
        "each 64th"}}}
      .at(cause);
}

/// Of those that are not used, where more is known, and of those that cannot have a gradient.
MissingWords not_used_words(const std::string& cause) {
  return std::map<std::string, MissingWords>{
      {kCloned,
       {"no operator with a gradient path read them: clone() alone did, as the constructor of "
        "torch::nn::TransformerEncoder clones the layer that it is given",
        {{"do not register the layer that was cloned: what holds its clones registers those",
          kLikely},
         {"call the layer itself in forward", kNeedsDecision}}}},
      {kReadEarly,
       {"operators read them in the first of these cycles alone, as {}; so it is where forward "
        "assigns what it computed to a member, as the next state of a recurrent layer",
        {{"a state: a plain member, or register_buffer() and copy_() of the next one", kLikely},
         {"use it in each forward, or remove it", kNeedsDecision}}}},
      {kUsedBefore,
       {"no operator with a gradient path read them in these cycles",
        {{"none where they enter now and then, as a learned initial state does where a sequence "
          "begins",
          kNeedsDecision},
         {"else use them in forward as before", kNeedsDecision}}}},
      {kNotLeaf,
       {"each is the result of an operator on another tensor and no leaf: backward fills no grad() "
        "of it, and no optimizer can hold it",
        {{"make the finished tensor the parameter: (torch::randn(...) * scale).detach()"
          ".requires_grad_(true)",
          kLikely},
         {"or register and train the tensor that it is computed from", kNeedsDecision}}}}}
      .at(cause);
}

bool is_told_apart(const std::string& cause) {
  return cause == kCloned || cause == kReadEarly || cause == kUsedBefore || cause == kNotLeaf;
}

MissingWords missing_words(const std::string& cause) {
  if (cause.empty() || cause == kAwaited || cause == kReached) return undecided_words(cause);
  if (is_told_apart(cause)) return not_used_words(cause);
  return std::map<std::string, MissingWords>{
      {"not_used",
       {"no operator with a gradient path read them",
        {{"call the layer in forward, or remove it", kLikely},
         {"requires_grad_(false) before averaging starts, if it is to stay unused",
          kNeedsDecision}}}},
      {"grad_mode_off",
       {"operators with grad mode off read them, the first {}",
        {{"requires_grad_(false), if it is to stay frozen", kLikely},
         {"end the torch::NoGradGuard before this layer runs", kNeedsDecision}}}},
      {"no_backward",
       {"they ran, and no backward followed before the optimizer stepped",
        {{"call backward() on the loss before step()", kLikely}}}},
      {"not_accumulated",
       {"only a backward that accumulates nothing reached them, as autograd::grad(), and nothing "
        "gave "
        "them its gradients before their optimizer stepped",
        {{"assign those gradients to mutable_grad() of all members, or call backward()", kLikely},
         {"let the loss that backward() begins at depend on them", kLikely}}}},
      {"cut",
       {"what follows {} went on without a gradient path",
        {{"remove detach(), item() or the guard on the way", kNeedsDecision}}}},
      {"output_not_in_loss",
       {"they ran; the output of {} was still alive at backward and entered no loss",
        {{"add the output to the loss", kLikely}, {"do not compute it", kLikely}}}},
      {"result_dropped",
       {"they ran; the output of {} was gone before backward began",
        {{"use the result of that operator", kLikely}, {"do not compute it", kLikely}}}},
      {"function_returned_nothing",
       {"backward reached them, and the function before them returned no gradient",
        {{"return a gradient for each input of the function", kLikely}}}},
      {kClearedBeforeStep,
       {"backward gave them gradients, which were cleared before the optimizer stepped",
        {{"keep the order zero_grad(), backward(), step()", kLikely}}}}}
      .at(cause);
}

std::string missing_count(const TensorGroup& group) {
  return fmt::format("{} ({})",
                     counted(static_cast<std::int64_t>(group.tensors.size()), "parameter"),
                     counted(elements_of(group.tensors), "element"));
}

/// Where they are, why they have no gradient, and what helps.
Finding missing_at(const TensorGroup& group, const MissingCause& cause) {
  Finding finding = about(group);
  finding.op = cause.op;
  const MissingWords words = missing_words(cause.was_reached         ? kReached
                                           : cause.is_cloned         ? kCloned
                                           : cause.was_read_early    ? kReadEarly
                                           : cause.was_used_before() ? kUsedBefore
                                                                     : cause.name);
  std::string end = cause.shape.empty() ? "" : " " + shape_text(cause.shape);
  if (cause.other_ops > 0) end += fmt::format(" and {}", counted(cause.other_ops, "other"));
  finding.why = fmt::format(fmt::runtime(words.why), cause.op + end);
  if (group.tensors.size() > 3) finding.why += "; largest " + joined(largest_shapes(group.tensors));
  if (cause.was_used_before()) {
    finding.why += fmt::format("; the last gradient came in step {}", cause.last_step);
  }
  finding.fixes = words.fixes;
  if (!cause.name.empty()) finding.facts.push_back({fact::kCause, cause.name});
  if (!cause.op.empty()) finding.facts.push_back({fact::kPathEndOp, cause.op});
  return finding;
}

/// What no optimizer holds and no forward uses may be trained in a later phase; in a model of which
/// none holds any part, nobody would use the gradient.
bool is_gradient_wanted(const TensorGroup& group, const MissingCause& cause,
                        const RunState& state) {
  return std::ranges::any_of(group.tensors, [&](const TensorState* tensor) {
    if (!tensor->owners.empty()) return true;
    return cause.name != "not_used" && !is_of_untrained_model(state, *tensor);
  });
}
}  // namespace

Finding missing_finding(const TensorGroup& group, const MissingCause& cause, std::int64_t cycles,
                        const RunState& state) {
  const bool decided = !cause.name.empty();
  Finding finding = missing_at(group, cause);
  const bool comes_at_times = cause.was_used_before() && !cause.was_always_there;
  finding.severity = decided && !comes_at_times && is_gradient_wanted(group, cause, state)
                         ? Severity::kWarning
                         : Severity::kNote;
  finding.evidence_status = decided ? EvidenceStatus::kEstablished : EvidenceStatus::kUndecided;
  finding.what = fmt::format(
      "{} {} in {} cycles: {}", missing_count(group),
      cause.name == kClearedBeforeStep ? "stepped without a gradient" : "got no gradient", cycles,
      decided ? cause.name : "cause undecided");
  const std::int64_t steps_per_cycle =
      std::max<std::int64_t>(1, state.now().step / std::max<std::int64_t>(1, state.now().cycle));
  finding.facts.push_back({fact::kWindowSteps, cycles * steps_per_cycle});
  return finding;
}

Finding foreign_finding(const TensorGroup& group, std::int64_t steps, const RunState& state) {
  Finding finding = missing_finding(group, {.name = kClearedBeforeStep}, steps, state);
  finding.phase = Phase::kOptimizer;
  finding.what = fmt::format("{} stepped without a gradient in {} steps: {}", missing_count(group),
                             steps, kClearedBeforeStep);
  finding.why =
      "backward gave them gradients after each step of their optimizer and none before the next, "
      "as "
      "where the loss of another optimizer alone reaches them; zero_grad() stands between";
  finding.fixes = {{"add what they compute to the loss of their own optimizer", kLikely},
                   {"give them to the optimizer whose loss reaches them", kNeedsDecision}};
  return finding;
}

Finding awaited_finding(const ReducerEvent& pass, const TensorGroup& group,
                        const MissingCause& cause) {
  MissingCause named = cause;
  if (named.name.empty()) named = {.name = std::string(kAwaited)};
  Finding finding = missing_at(group, named);
  const bool frozen = std::ranges::none_of(
      group.tensors, [](const TensorState* tensor) { return tensor->info.requires_grad; });
  finding.severity = frozen ? Severity::kWarning : Severity::kError;
  finding.step = pass.at.step;
  finding.phase = Phase::kReduce;
  finding.what = fmt::format("{} got no gradient, and c10d::Reducer waits for all {}: {}",
                             missing_count(group), pass.parameters.size(), named.name);
  finding.why +=
      "; until each is ready the Reducer averages none of them, and the next rebuild_buckets() "
      "throws \"Expected to have finished reduction in the prior iteration\"";
  finding.fixes.push_back(
      {"c10d::Reducer with find_unused_parameters, an argument of its constructor, and the outputs "
       "given to prepare_for_backward(), if the branch truly changes",
       kNeedsDecision});
  finding.facts.push_back({fact::kWindowSteps, std::int64_t{1}});
  finding.facts.push_back({fact::kReducerPresent, true});
  return finding;
}

void add_cut(const MissingCause& cause, const RunState& state, Finding& finding) {
  if (cause.cut_op.empty()) return;
  const std::string line = add_site("used", cause.cut_stack, state, finding);
  finding.why += "; cut by " + cause.cut_op + (line.empty() ? "" : fmt::format(" ({})", line));
}

std::string missing_words_of_ranks(const std::vector<RankSide>& causes) {
  static const std::map<std::string_view, std::string_view> words = {
      {"function_returned_nothing", "the function before them returned no gradient"},
      {"not_used", "no operator with a gradient path read them"},
      {"grad_mode_off", "they were read with grad mode off"},
      {"cut", "what followed them went on without a gradient path"},
      {"output_not_in_loss", "they ran, and what came of it entered no loss"},
      {"result_dropped", "they ran, and what came of it was gone before backward began"}};
  if (causes.empty() || !words.contains(causes.front().value)) return {};
  RankList ranks;
  for (const RankSide& side : causes) {
    if (side.value != causes.front().value) return {};
    ranks.insert(ranks.end(), side.ranks.begin(), side.ranks.end());
  }
  return fmt::format("{} on {}; ", words.at(causes.front().value), rank_words(ranks));
}

}  // namespace ddpscope
