#include "checks/mode_text.h"

#include <fmt/format.h>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::size_t kMaxModes = 64;

Finding about_modules(const ModelState& model, const std::string& cause,
                      std::vector<std::string> paths) {
  Finding finding;
  finding.model = model.label;
  finding.module_path = paths.front();
  for (const std::string& path : paths)
    finding.module_path = common_path(finding.module_path, path);
  const auto count = static_cast<std::int64_t>(paths.size());
  if (paths.size() > kMaxModes) paths.resize(kMaxModes);
  finding.facts = {
      {fact::kCause, cause}, {fact::kModules, as_fact(paths)}, {fact::kModulesCount, count}};
  return finding;
}
}  // namespace

Finding frozen_norm_updates(const ModelState& model, const FrozenNorms& norms, std::int64_t steps) {
  Finding finding = about_modules(model, "frozen_norm_updates", norms.paths);
  const auto count = static_cast<std::int64_t>(norms.paths.size());
  finding.phase = Phase::kForward;
  finding.op = "aten::batch_norm";
  finding.what = fmt::format("{} {} running statistics in training mode (frozen_norm_updates)",
                             counted(count, "frozen normalisation layer"),
                             count == 1 ? "updates its" : "update their");
  finding.why = norms.is_all
                    ? fmt::format(
                          "no parameter of the model trains, but it is in training mode, as "
                          "every model is until its eval(): {} in a row",
                          counted(steps, "step"))
                    : fmt::format(
                          "{} of these layers are frozen, but train(true) of a parent keeps the "
                          "layers in training mode: {} in a row",
                          counted(norms.parameters, "parameter"), counted(steps, "step"));
  if (norms.is_all) {
    finding.fixes = {{"call eval() of the model before it is used", kLikely}};
  } else {
    finding.fixes = {{"call eval() of the frozen part after every train()", kLikely},
                     {"override train(bool) of its class", kLikely}};
  }
  finding.facts.push_back({fact::kFrozenParametersCount, norms.parameters});
  finding.facts.push_back({fact::kStepsInModeCount, steps});
  return finding;
}

Finding eval_while_training(const ModelState& model, bool trained, std::int64_t steps) {
  Finding finding = about_modules(model, "eval_while_training", {""});
  finding.severity = trained ? Severity::kWarning : Severity::kNote;
  finding.phase = Phase::kForward;
  finding.what = fmt::format("the model was in eval mode in {} of training (eval_while_training)",
                             counted(steps, "step"));
  finding.why = trained ? "it trained in training mode before: an eval() was not undone"
                        : "it was never seen in training mode: dropout and normalisation work as "
                          "in evaluation";
  finding.fixes = {{"call train() of the model after each evaluation", kLikely},
                   {"declare it intended, if it is to train in eval mode", kNeedsDecision}};
  finding.facts.push_back({fact::kStepsInModeCount, steps});
  return finding;
}

Finding training_op_in_eval(const ModelState& model, const InEval& in_eval) {
  Finding finding = about_modules(model, "training_op_in_eval", {in_eval.path});
  finding.phase = Phase::kForward;
  finding.op = in_eval.op;
  finding.what = fmt::format("{} runs in training mode in an evaluation{} (training_op_in_eval)",
                             in_eval.op, in_eval.unregistered ? ", in an unregistered layer" : "");
  finding.why = in_eval.unregistered
                    ? "eval() of the model reaches registered layers only"
                    : "the model is in eval mode and grad mode is off, the operator was told to "
                      "train";
  finding.fixes = {
      {"pass is_training() to the functional call instead of true", kLikely},
      {"register the layer that ignores eval() with register_module", kLikely},
      {"declare it intended, if it samples on purpose (Monte-Carlo dropout)", kNeedsDecision}};
  if (in_eval.unregistered) finding.fixes.erase(finding.fixes.begin());
  finding.facts.push_back({fact::kUnregistered, in_eval.unregistered});
  return finding;
}

Finding evaluation_in_training(const ModelState& model, const EvaluatedInTraining& evaluated,
                               const RunState& state) {
  Finding finding = about_modules(model, "evaluation_in_training", {evaluated.path});
  finding.phase = Phase::kForward;
  finding.op = evaluated.op;
  finding.step = evaluated.step;
  finding.what = "the model is evaluated in training mode (evaluation_in_training)";
  const bool is_norm = evaluated.op == "aten::batch_norm";
  finding.why = fmt::format(
      "{} judged {}{} without grad, in which {}", evaluated.loss,
      counted(evaluated.times, "forward"), evaluated.times > 1 ? " or more" : "",
      is_norm ? "batch norm normalised by the batch at hand and took it into its running statistics"
              : "dropout left values out");
  finding.fixes = {{"call eval() of the model before the evaluation and train() after it", kLikely},
                   {is_norm ? "declare it intended, if batches are to be normalised by themselves"
                            : "declare it intended, if it samples on purpose (Monte-Carlo dropout)",
                    kNeedsDecision}};
  finding.facts.push_back({fact::kLossOp, evaluated.loss});
  add_site("called", evaluated.stack, state, finding);
  return finding;
}

}  // namespace ddpscope
