#include "checks/update_text.h"

#include <fmt/format.h>

#include <cmath>

#include "checks/finding_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr double kNearlyNothing = 1e-9;
constexpr double kLeastRatio = 1e-12;

// An optimizer of the program's own does not tell it.
std::string rate_text(double lr, const char* separator) {
  return std::isnan(lr) ? "" : fmt::format("learning rate {:.2g}{}", lr, separator);
}
}  // namespace

std::string change_text(std::int64_t parameters, double ratio) {
  return fmt::format("{} by {} of {} size", counted(parameters, "parameter"),
                     ratio < kLeastRatio ? fmt::format("less than {:.2g}", kLeastRatio)
                                         : fmt::format("{:.2g}", ratio),
                     parameters == 1 ? "its" : "their");
}

std::vector<const TensorState*> trained_members(const OptimizerState& optimizer,
                                                const RunState& state) {
  std::vector<const TensorState*> members;
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      const TensorState* tensor = state.tensor(member.tensor);
      if (tensor != nullptr && tensor->gradients > 0) members.push_back(tensor);
    }
  }
  return members;
}

Finding about_optimizer(const OptimizerState& optimizer, const std::string& cause,
                        const RunState& state) {
  const auto members = trained_members(optimizer, state);
  Finding finding;
  finding.phase = Phase::kOptimizer;
  finding.severity = Severity::kWarning;
  if (const ModelState* model = state.model_of(optimizer)) finding.model = model->label;
  finding.facts = {{fact::kCause, cause},
                   {fact::kParametersCount, std::ssize(members)},
                   {fact::kElements, elements_of(members)}};
  return finding;
}

void explain_update(const std::string& cause, const UpdateWindows& windows,
                    const TensorState& first, const RunState& state, Finding& finding) {
  using enum Applicability;
  const double lr = windows.at(first.info.id).last().lr;
  if (cause == "exploding") {
    finding.why = rate_text(lr, "; ") + "every step replaces much of the weights";
    finding.fixes = {{"a lower learning rate", kLikely}, {"clip the gradients", kNeedsDecision}};
  } else if (cause == "vanishing") {
    finding.why = fmt::format(
        "the gradient of the first layer is {:.2g} of that of the last: it fades on its way back",
        gradient_ratio(windows, state.model_of(first)));
    finding.fixes = {
        {"activations that do not saturate, normalization or residual connections", kNeedsDecision},
        {"another initialization", kNeedsDecision}};
  } else if (lr == 0) {
    finding.why = "the learning rate of their group is 0";
    finding.fixes = {{"set the learning rate of the group, or look at its schedule", kLikely},
                     {"freeze them: requires_grad_(false)", kNeedsDecision}};
  } else if (lr < kNearlyNothing) {
    finding.why = fmt::format("the learning rate of their group is {:.2g}", lr);
    finding.fixes = {{"look at the schedule: step() of a scheduler that counts epochs belongs "
                      "behind each epoch, not behind each batch",
                      kLikely},
                     {"end the training where the schedule does", kNeedsDecision}};
  } else {
    finding.why = fmt::format("{}the update is below half a unit in the last place of {}",
                              rate_text(lr, ": "), first.info.dtype);
    finding.fixes = {{"keep the weights that the optimizer changes in float32", kLikely},
                     {"a learning rate above " + (std::isnan(lr) ? "this one" : number_text(lr)),
                      kNeedsDecision}};
    if (first.info.dtype == "float16") {
      finding.fixes[1] = {
          "multiply the loss, and divide the gradients before step(): float16 "
          "flushes small ones to zero",
          kLikely};
    }
  }
}

void add_update_facts(const std::string& cause, const UpdateWindow& window,
                      const TensorState& first, Finding& finding) {
  finding.facts.push_back({fact::kCause, cause});
  finding.facts.push_back({fact::kUpdateRatio, window.ratio_median()});
  finding.facts.push_back({fact::kGradientNorm, window.gradient_median()});
  const double lr = window.last().lr;
  if (!std::isnan(lr)) finding.facts.push_back({fact::kLr, lr});
  finding.facts.push_back({fact::kDtype, first.info.dtype});
  finding.facts.push_back({fact::kSamplesCount, static_cast<std::int64_t>(window.samples())});
}

}  // namespace ddpscope
