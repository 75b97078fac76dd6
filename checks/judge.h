#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "checks/check.h"
#include "checks/check_table.h"
#include "checks/run_state.h"

namespace ddpscope {

struct JudgeOptions {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  CheckLevel level = CheckLevel::kValues;
  std::string checks = "*";  ///< globs as in the setting `checks`
  /// Capture sources that deliver: tree, forward, op, graph, gradient, optimizer, error,
  /// training_op, zero_gradient, archive, buffer, write, saved, value, target, loader,
  /// convolution, wait.
  std::set<std::string> sources;
  SiteSource* sites = nullptr;  ///< none: findings name no lines
};

enum class CheckState : std::uint8_t { kPassed, kFailed, kBlocked, kOff };

/// What became of one check that has a factory.
struct CheckCoverage {
  CheckState state = CheckState::kPassed;
  std::string why;           ///< of kBlocked and kOff
  std::int64_t cost_ns = 0;  ///< estimated from every 16th call
};

/// Runs the enabled checks over a rank's events. One thread calls it; no check's fault leaves it.
class Judge {
 public:
  using Sink = std::function<void(const Finding&)>;
  Judge(const JudgeOptions& options, Sink sink);
  /// For tests: these checks instead of the table's.
  Judge(const JudgeOptions& options, Sink sink, std::span<const CheckRow> table);

  void consume(const Event& event);

  std::map<std::string, CheckCoverage> coverage() const;
  /// Every finding in its latest form, in the order of first occurrence.
  Findings findings() const;
  const RunState& state() const { return state_; }

 private:
  struct Running {
    std::string id;
    std::unique_ptr<Check> check = {};
    CheckCoverage coverage = {};
    std::int64_t calls = 0;
    bool is_left_out = false;  ///< by the setting `level`
    bool needs_steps = false;  ///< that a step ended
  };
  void add(const CheckRow& row, const JudgeOptions& options);
  void call(Running& running, const Event& event, Findings& findings);
  void tell_blocked();
  void see_unfinished(Running& running) const;
  void disable(Running& running, const std::string& what);
  void emit(Running& running, Finding finding);
  void keep(Finding finding);
  void link(Finding& added);
  static bool link(Finding& cause, Finding& effect);

  std::int64_t rank_;
  Sink sink_;
  RunState state_;
  std::vector<Running> running_;
  /// By kind of event, the checks that do not pass on it.
  std::array<std::vector<std::size_t>, std::variant_size_v<Event>> listeners_;
  Findings kept_;
  std::unordered_map<std::string, std::size_t> by_fingerprint_;
};

}  // namespace ddpscope
