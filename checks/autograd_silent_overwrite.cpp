#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "checks/stale_text.h"
#include "checks/subtree.h"
#include "checks/writing_threads.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
/// What one hand wrote below one backward.
struct Overwrite {
  StaleSavedEvent first;
  std::set<std::pair<std::uint64_t, std::int64_t>> seen;  ///< storages and places in them
  std::vector<std::string> tensors;
  std::int64_t elements = 0;
  bool by_norm = false;  ///< a batch norm in training mode had the running mean
};

/// autograd-silent-overwrite; docs/checks/autograd-silent-overwrite.md
class AutogradSilentOverwrite final : public Check {
 public:
  void on_stale_saved(const StaleSavedEvent& event, const RunState& state, Findings&) override {
    if (!event.silent || event.only_checked) return;
    const TensorState* owner = owner_of(event.tensor, state);
    if (threads_.is_intended(event, owner, state)) return;
    const Doing by = event.writer.has_value() ? event.writer->by : Doing{};
    // One optimizer step is one hand, whatever operators it is made of.
    const StackId stack = by.optimizer != 0 ? 0 : by.stack;
    Overwrite& overwrite = pending_[event.at.thread][{by.optimizer, by.step, stack}];
    // Two nodes that save one tensor may hold two objects.
    const TensorInfo& info = owner != nullptr ? owner->info : event.tensor;
    if (!overwrite.seen.insert({info.storage, info.storage_offset_bytes}).second) return;
    if (overwrite.tensors.empty()) overwrite.first = event;
    overwrite.by_norm |= owner != nullptr && trained_.contains(owner->info.id);
    overwrite.tensors.push_back(owner != nullptr ? tensor_path(*owner)
                                                 : shape_text(event.tensor.shape));
    overwrite.elements += event.tensor.elements;
  }

  void on_training_op(const TrainingOpEvent& event, const RunState&, Findings&) override {
    if (event.at.step != step_) trained_.clear();
    step_ = event.at.step;
    trained_.insert(event.statistics);
  }

  void on_backward_end(const BackwardEndEvent& event, const RunState& state,
                       Findings& findings) override {
    const auto pending = pending_.extract(event.at.thread);
    if (pending.empty()) return;
    for (const auto& [hand, overwrite] : pending.mapped()) {
      if (threads_.of(overwrite.first, state) == WrittenBy::kStillStepping) {
        waiting_.push_back(overwrite);
      } else {
        report(overwrite, state, findings);
      }
    }
  }

  void on_optimizer_step(const OptimizerStepEvent& event, const RunState& state,
                         Findings& findings) override {
    threads_.add(event);
    std::erase_if(waiting_, [&](const Overwrite& overwrite) {
      if (overwrite.first.writer->by.optimizer != event.optimizer) return false;
      report(overwrite, state, findings);
      return true;
    });
  }

  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    for (const auto& [thread, overwrites] : pending_) {
      for (const auto& [hand, overwrite] : overwrites) report(overwrite, state, findings);
    }
    for (const Overwrite& overwrite : waiting_) report(overwrite, state, findings);
    pending_.clear();
    waiting_.clear();
  }

 private:
  using Hand = std::tuple<OptimizerId, std::int64_t, StackId>;

  void report(const Overwrite& overwrite, const RunState& state, Findings& findings) const {
    WriterText writer;
    Finding finding = about_stale(overwrite.first, state, writer);
    if (overwrite.by_norm && !overwrite.first.writer.has_value()) say_norm(writer, finding);
    const auto count = static_cast<std::int64_t>(overwrite.tensors.size());
    std::vector<std::string> named = overwrite.tensors;
    if (count > 1) {
      finding.module_path = common_path(named);
      finding.subject.clear();
    }
    constexpr std::size_t kNamed = 3;
    const std::string more = count > 3 ? fmt::format(" and {} more", count - 3) : "";
    if (named.size() > kNamed) named.resize(kNamed);
    finding.what = fmt::format(
        "the content of {} ({}: {}{}) changed between forward and backward at equal version {}",
        counted(count, "saved tensor"), counted(overwrite.elements, "element"), joined(named), more,
        overwrite.first.saved_version);
    const bool of_other = threads_.of(overwrite.first, state) == WrittenBy::kOtherThread;
    if (of_other) say_other_thread(writer, finding);
    finding.why = fmt::format(
        "{}; the write went past the version counter, so nothing throws and the gradients are "
        "those of neither state",
        who_wrote(writer, overwrite.first, finding));
    finding.fixes = std::move(writer.fixes);
    finding.facts.push_back({fact::kVersion, std::int64_t{overwrite.first.saved_version}});
    finding.facts.push_back({fact::kTensorsCount, count});
    finding.facts.push_back({fact::kElements, overwrite.elements});
    finding.facts.push_back({fact::kWindow, "forward to backward"});
    findings.push_back(std::move(finding));
  }

  /// The deepest module that all registered paths share.
  static std::string common_path(const std::vector<std::string>& paths) {
    std::string common = paths.front();
    for (const std::string& path : paths) common = ddpscope::common_path(common, path);
    return common.starts_with('[') ? "" : common;
  }

  std::map<std::uint64_t, std::map<Hand, Overwrite>> pending_;
  std::vector<Overwrite> waiting_;  ///< for the end of the step that wrote
  WritingThreads threads_;
  std::int64_t step_ = 0;
  std::set<TensorId> trained_;  ///< running means that this step has updated
};
}  // namespace

std::unique_ptr<Check> make_autograd_silent_overwrite() {
  return std::make_unique<AutogradSilentOverwrite>();
}

}  // namespace ddpscope
