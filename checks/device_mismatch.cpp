#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "checks/device_text.h"
#include "checks/failure_check.h"

namespace ddpscope {
namespace {
/// device-mismatch; docs/checks/device-mismatch.md
class DeviceMismatch final : public FailureCheck {
 public:
  void on_tree(const TreeEvent& event, const RunState&, Findings&) override {
    moves_.update(event);
  }

  // Where operators are looked at, the one that threw tells more when it ends.
  void on_error(const ErrorEvent& event, const RunState& state, Findings&) override {
    if (auto finding = device_mismatch(event, state)) {
      hints_.insert_or_assign(event.at.thread, *std::move(finding));
    }
  }

  void on_operator_failed(const OperatorFailedEvent& event, const RunState& state,
                          Findings&) override {
    const auto split = split_by_device(event, state);
    if (!split.has_value()) return;
    hints_.erase(event.at.thread);
    if (failures_.size() >= kMaxPending) return;
    failures_.push_back(device_mismatch(event, *split, state, moves_));
  }

 private:
  static constexpr std::size_t kMaxPending = 64;

  /// A step that completes says that the program recovered.
  void decide(Severity severity, Findings& findings) override {
    for (auto& [thread, hint] : std::exchange(hints_, {})) failures_.push_back(std::move(hint));
    for (Finding& failure : std::exchange(failures_, {})) {
      failure.severity = severity;
      if (severity == Severity::kNote) failure.why += "; the program caught it and trained on";
      findings.push_back(std::move(failure));
    }
  }

  DeviceMoves moves_;
  std::map<std::uint64_t, Finding> hints_;
  Findings failures_;
};
}  // namespace

std::unique_ptr<Check> make_device_mismatch() { return std::make_unique<DeviceMismatch>(); }

}  // namespace ddpscope
