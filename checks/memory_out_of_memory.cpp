#include <memory>
#include <vector>

#include "checks/allocation_failure.h"
#include "checks/failure_check.h"
#include "checks/memory_text.h"
#include "checks/run_state.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxPending = 64;

/// memory-out-of-memory; docs/checks/memory-out-of-memory.md
class MemoryOutOfMemory final : public FailureCheck {
 public:
  void on_error(const ErrorEvent& event, const RunState& state, Findings&) override {
    const auto failure = allocation_failure(event.message);
    if (!failure.has_value() || pending_.size() >= kMaxPending) return;
    if (is_thrown_again(*failure, event)) return;
    OutOfMemory what = out_of_memory(*failure, event, state);
    add_stack(thrown_in(event, state), what);
    pending_.push_back({.thread = event.at.thread, .what = std::move(what)});
  }

  /// The operator that the exception of this thread left.
  void on_operator_failed(const OperatorFailedEvent& event, const RunState& state,
                          Findings&) override {
    if (!allocation_failure(event.message).has_value()) return;
    for (auto one = pending_.rbegin(); one != pending_.rend(); ++one) {
      if (one->thread != event.at.thread) continue;
      add_operator(event, state, one->what);
      one->is_seen = true;
      return;
    }
  }

 private:
  struct Pending {
    std::uint64_t thread = 0;
    OutOfMemory what;
    bool is_seen = false;  ///< its operator, to its end
  };

  /// LibTorch may catch what it threw and throw it with more text.
  bool is_thrown_again(const AllocationFailure& failure, const ErrorEvent& event) const {
    if (pending_.empty()) return false;
    const Pending& last = pending_.back();
    return last.thread == event.at.thread && last.what.step == event.at.step && !last.is_seen &&
           last.what.failure.requested_bytes == failure.requested_bytes;
  }

  /// A step that completes says that the program went on with less.
  void decide(Severity severity, Findings& findings) override {
    for (const Pending& one : pending_) {
      Finding finding = finding_about(one.what);
      finding.severity = severity;
      if (severity == Severity::kNote) finding.why += "; the program caught it and trained on";
      findings.push_back(std::move(finding));
    }
    pending_.clear();
  }

  std::vector<Pending> pending_;
};
}  // namespace

std::unique_ptr<Check> make_memory_out_of_memory() { return std::make_unique<MemoryOutOfMemory>(); }

}  // namespace ddpscope
