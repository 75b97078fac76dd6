#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "checks/check.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kShortestEpoch = 8;
constexpr std::int64_t kInARow = 16;
constexpr std::int64_t kScattered = 8;  // with hooks at rest between them
constexpr std::size_t kMostBatches = 1 << 14;
constexpr std::size_t kMostDistances = 64;

/// data-not-reshuffled; docs/checks/data-not-reshuffled.md
class DataNotReshuffled final : public Check {
 public:
  void on_batch(const BatchEvent& event, const RunState& state, Findings& findings) override {
    const std::int64_t step = event.at.step;
    if (batches_.size() == kMostBatches) forget();
    if (told_ || state.several_threads_train()) return;
    if (!batches_.try_emplace(step, event.fingerprint).second) return;
    const auto [known, is_new] = first_steps_.try_emplace(event.fingerprint, step);
    if (is_new) return;
    const std::int64_t distance = step - known->second;
    if (distance < kShortestEpoch) return forget();  // made up, or one batch again and again
    Again& again = again_[distance];
    if (++again.count == 1) again.first_step = step;
    const std::int64_t needed = again.are_in_a_row(step) ? std::min(kInARow, distance) : kScattered;
    if (again.count < needed) return keep_few(distance);
    if (!is_same_order(distance, again, step)) {
      again_.erase(distance);
      return;
    }
    told_ = true;
    findings.push_back(describe(step, distance, again, state));
  }

  void on_dropped(const DroppedEvent&, const RunState&) override { forget(); }

 private:
  /// Batches that came again so many steps later.
  struct Again {
    std::int64_t count = 0;
    std::int64_t first_step = 0;

    bool are_in_a_row(std::int64_t last) const { return last - first_step + 1 == count; }
  };

  void forget() {
    batches_.clear();
    first_steps_.clear();
    again_.clear();
  }

  /// In another order each batch comes again at a distance of its own.
  void keep_few(std::int64_t newest) {
    if (again_.size() <= kMostDistances) return;
    std::erase_if(
        again_, [newest](const auto& one) { return one.second.count == 1 && one.first != newest; });
  }

  /// Nothing else was read there, as far as steps were watched.
  bool is_same_order(std::int64_t distance, const Again& again, std::int64_t last) const {
    const auto begin = batches_.lower_bound(again.first_step);
    return std::all_of(begin, batches_.upper_bound(last), [&](const auto& batch) {
      const auto before = batches_.find(batch.first - distance);
      return before == batches_.end() || before->second == batch.second;
    });
  }

  static Finding describe(std::int64_t step, std::int64_t distance, const Again& again,
                          const RunState& state) {
    const std::int64_t epochs = 1 + (step - 1) / distance;
    Finding finding;
    finding.severity = state.world_size() > 1 ? Severity::kWarning : Severity::kNote;
    finding.phase = Phase::kForward;
    finding.step = step;
    finding.what =
        again.are_in_a_row(step)
            ? fmt::format("epoch {} delivers the first {} batches of epoch {} again", epochs,
                          again.count, epochs - 1)
            : fmt::format("{} batches that were seen came again at their places, {} steps later",
                          again.count, distance);
    // Which sampler the loader has is not known: one process may have any of them.
    finding.why =
        state.world_size() > 1
            ? "every epoch has the order of the first, as where set_epoch() is called on a copy of "
              "the sampler, while the data loader has its own, or where a list is shuffled after "
              "the same seed in each epoch, or never"
            : "every epoch has the order of the first, as of a sequential sampler, of a random one "
              "after the same torch::manual_seed() in each epoch, or of a distributed one whose "
              "copy in the data loader sees no set_epoch()";
    finding.fixes = {
        {"build the data loader again per epoch, with a sampler whose set_epoch(e) was called",
         kLikely},
        {"seed once, before the first epoch, or with the number of the epoch", kLikely},
        {"keep it, where the order is meant to be the same", kNeedsDecision}};
    finding.facts = {{fact::kEpochs, epochs},
                     {fact::kComparedBatchesCount, again.count},
                     {fact::kEpochLengthBatches, distance}};
    return finding;
  }

  std::map<std::int64_t, std::uint64_t> batches_;                ///< by step
  std::unordered_map<std::uint64_t, std::int64_t> first_steps_;  ///< of each fingerprint
  std::map<std::int64_t, Again> again_;                          ///< by distance
  bool told_ = false;
};
}  // namespace

std::unique_ptr<Check> make_data_not_reshuffled() { return std::make_unique<DataNotReshuffled>(); }

}  // namespace ddpscope
