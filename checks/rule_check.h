#pragma once

#include <optional>
#include <string_view>

#include "checks/failure_check.h"

namespace ddpscope {

/// A check of writes that a rule of autograd forbids. Of what began before hooks stood, as the
/// first work of a preloaded program, the exception alone is seen: it is told at the end.
class RuleCheck : public FailureCheck {
 public:
  /// `words`: of what LibTorch throws.
  explicit RuleCheck(std::string_view words) : words_(words) {}
  void on_error(const ErrorEvent& event, const RunState& state, Findings& findings) override;

 protected:
  /// By an event of its own.
  void write_was_seen() { unseen_.reset(); }

 private:
  void decide(Severity severity, Findings& findings) override;
  /// Says what is wrong with the operator of the finding, where that is known.
  virtual void describe_unseen(Finding& finding) const = 0;

  std::string_view words_;
  std::optional<Finding> unseen_;
};

}  // namespace ddpscope
