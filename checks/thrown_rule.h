#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "checks/thrown_in.h"

namespace ddpscope {

/// A rule of autograd that a write broke, of which the exception alone was seen: it ran before
/// hooks stood, as the first work of a preloaded program.
class ThrownRule {
 public:
  /// `words`: of what LibTorch throws.
  explicit ThrownRule(std::string_view words) : words_(words) {}

  void see(const ErrorEvent& event, const RunState& state);
  /// The write itself was told, or training goes on.
  void drop() { finding_.reset(); }
  /// At the end: the place and the operator of an error, with its lines.
  std::optional<Finding> take() { return std::exchange(finding_, std::nullopt); }

 private:
  std::string_view words_;
  std::optional<Finding> finding_;
};

}  // namespace ddpscope
