#include "checks/remade_optimizers.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "checks/update_text.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kMadeInARow = 16;
constexpr std::size_t kMostLines = 256;
constexpr std::int64_t kStepsOfOthers = 4;  // of other optimizers, between two of a line

bool keeps_averages(const OptimizerState& optimizer) {
  return optimizer.of_libtorch && (optimizer.type == "Adam" || optimizer.type == "AdamW" ||
                                   optimizer.type == "RMSprop" || optimizer.type == "Adagrad");
}

bool keeps_momentum(const OptimizerState& optimizer) {
  return optimizer.of_libtorch && optimizer.type == "SGD" &&
         std::ranges::any_of(optimizer.options,
                             [](const GroupOptions& options) { return options.momentum > 0; });
}

TensorId first_member(const OptimizerState& optimizer) {
  for (const auto& group : optimizer.groups) {
    if (!group.empty()) return group.front().tensor;
  }
  return 0;
}

Finding describe_remade(const OptimizerState& optimizer, const RunState& state) {
  using enum Applicability;
  Finding finding = about_optimizer(optimizer, "state_lost", state);
  const std::string type = optimizer.type;
  finding.what = fmt::format("each of the last {} steps was the only one of a new {} (state_lost)",
                             kMadeInARow, type);
  finding.why = keeps_momentum(optimizer)
                    ? "its momentum begins at zero each time: it never adds up"
                    : "its averages begin at zero each time: with one gradient behind them a step "
                      "is as large for small gradients as for large ones";
  finding.fixes = {{fmt::format("build {} once, in front of the loop", type), kLikely},
                   {"to change the learning rate, set it in the options of its groups", kLikely}};
  return finding;
}
}  // namespace

std::optional<Finding> RemadeOptimizers::on(const OptimizerStepEvent& event,
                                            const RunState& state) {
  const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
  if (!keeps_averages(optimizer) && !keeps_momentum(optimizer)) return std::nullopt;
  const TensorId member = first_member(optimizer);
  const TensorState* tensor = state.tensor(member);
  const bool trains = tensor != nullptr && tensor->gradients > 0 && !tensor->is_written() &&
                      !tensor->is_copied && !state.several_threads_train();
  if (!trains || event.threw || event.with_closure) {
    lines_.erase(member);
    return std::nullopt;
  }
  if (lines_.size() > kMostLines) lines_.clear();
  Line& line = lines_[member];
  const bool is_new = line.last != event.optimizer && optimizer.steps == 1;
  const bool follows = is_new && line.stepped_once && optimizer.creation_seen &&
                       event.at.step - line.last_step <= kStepsOfOthers;
  line.in_a_row = follows ? line.in_a_row + 1 : 1;
  line.last = event.optimizer;
  line.last_step = event.at.step;
  line.stepped_once = is_new;
  if (line.told || line.in_a_row < kMadeInARow) return std::nullopt;
  line.told = true;
  return describe_remade(optimizer, state);
}

}  // namespace ddpscope
