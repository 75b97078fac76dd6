#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "checks/cut_text.h"
#include "checks/starved.h"

namespace ddpscope {

/// Why LibTorch refuses a backward, where no operator of the step cut parameters from its loss.
class RefusedBackward {
 public:
  /// A backward began. If one was refused before, the program caught that: a note.
  void on(const BackwardEvent& event, Findings& findings) {
    went_on(findings);
    last_ = {event.at.step, event.at.thread, !event.accumulates && !event.creates_graph};
  }

  void went_on(Findings& findings) {
    if (!refused_.has_value()) return;
    refused_->severity = Severity::kNote;
    ended(findings);
  }
  /// The run. What was refused last is an error.
  void ended(Findings& findings) {
    if (refused_.has_value()) findings.push_back(*std::exchange(refused_, std::nullopt));
  }

  static void of_input(const ErrorEvent& event, const RunState& state, Findings& findings) {
    constexpr std::string_view kInput = " of the input tensors does not require grad";
    if (!event.message.starts_with("element ") || !event.message.ends_with(kInput)) return;
    findings.push_back(input_without_grad_finding(event, state));
  }

  void graphless(const ErrorEvent& event, const RunState& state, Findings& findings) {
    if (last_ == Last{event.at.step, event.at.thread, true}) {
      findings.push_back(after_grad_finding(event, state));
      return;
    }
    const std::vector<const TensorState*> frozen = frozen_members(state);
    refused_ = frozen.empty() ? no_graph_finding(untrained_members(state), event, state)
                              : frozen_finding(frozen, event, state);
  }

 private:
  using Last = std::tuple<std::int64_t, std::uint64_t, bool>;  // step, thread, made no graph

  Last last_;
  std::optional<Finding> refused_;  ///< of the backward that was refused last
};

}  // namespace ddpscope
