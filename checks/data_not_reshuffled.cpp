#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "checks/check.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::size_t kShortestEpoch = 8;
constexpr std::size_t kComparedBatches = 16;
constexpr std::size_t kLongestEpoch = 1 << 20;

/// data-not-reshuffled; docs/checks/data-not-reshuffled.md
class DataNotReshuffled final : public Check {
 public:
  void on_batch(const BatchEvent& event, const RunState& state, Findings& findings) override {
    // Batches of several forwards per step are not all seen: each step has its first.
    if (!epoch_.empty() && event.at.step != last_step_ + 1) forget();
    last_step_ = event.at.step;
    const bool begins = epoch_.size() >= kShortestEpoch && event.fingerprint == epoch_.front();
    if (begins) begin_epoch();
    if (epoch_.size() >= kLongestEpoch) forget();
    epoch_.push_back(event.fingerprint);
    if (before_.empty() || told_) return;
    const std::size_t compared = std::min(kComparedBatches, before_.size());
    if (epoch_.size() != compared) return;
    if (!std::equal(epoch_.begin(), epoch_.end(), before_.begin())) return;
    if (are_alike(before_, compared)) return;
    told_ = true;
    findings.push_back(describe(event, compared, state));
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { forget(); }

 private:
  void begin_epoch() {
    ++epochs_;
    before_ = std::move(epoch_);
    epoch_.clear();
  }
  void forget() {
    before_.clear();
    epoch_.clear();
    epochs_ = 1;
  }

  /// Data that is made up repeats sooner.
  static bool are_alike(const std::vector<std::uint64_t>& batches, std::size_t count) {
    std::vector<std::uint64_t> sorted(batches.begin(),
                                      batches.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) != sorted.end();
  }

  Finding describe(const BatchEvent& event, std::size_t compared, const RunState& state) const {
    Finding finding;
    finding.severity = state.world_size() > 1 ? Severity::kWarning : Severity::kNote;
    finding.phase = Phase::kForward;
    finding.step = event.at.step;
    finding.what = fmt::format("epoch {} delivers the first {} batches of epoch {} again", epochs_,
                               compared, epochs_ - 1);
    finding.why =
        "every epoch has the order of the first: a data loader of C++ holds a copy of its sampler, "
        "and set_epoch() of the program's own copy changes nothing";
    finding.fixes = {
        {"build the data loader again per epoch, with a sampler whose set_epoch(e) was called",
         kLikely},
        {"keep it, where the order is meant to be the same", kNeedsDecision}};
    finding.facts = {{fact::kEpochs, epochs_},
                     {fact::kComparedBatchesCount, static_cast<std::int64_t>(compared)},
                     {fact::kEpochLengthBatches, std::ssize(before_)}};
    return finding;
  }

  std::vector<std::uint64_t> before_;  ///< batches of the epoch before, in order
  std::vector<std::uint64_t> epoch_;
  std::int64_t epochs_ = 1;
  std::int64_t last_step_ = 0;
  bool told_ = false;
};
}  // namespace

std::unique_ptr<Check> make_data_not_reshuffled() { return std::make_unique<DataNotReshuffled>(); }

}  // namespace ddpscope
