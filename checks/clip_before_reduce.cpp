#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "checks/check.h"
#include "checks/clip_factors.h"
#include "checks/clip_finder.h"
#include "checks/rank_sides.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kClippedCycles = 2;

std::vector<Fix> fixes_for_order() {
  return {{"average the gradients, then clip on every rank", kSafe},
          {"where the gradients are shards: ClipOptions::shards, or sum the squared norm over the "
           "group before the factor is computed",
           kNeedsDecision}};
}

/// clip-before-reduce; docs/checks/clip-before-reduce.md
class ClipBeforeReduce final : public Check {
 public:
  void on_backward(const BackwardEvent&, const RunState&, Findings&) override {
    finder_.on_backward();
    was_clipped_ = is_clipped_;
    forget_clip();
  }
  // Clipped for each sample, gradients are added up elsewhere, and that is averaged.
  void on_gradient(const GradientEvent& event, const RunState&, Findings&) override {
    const bool is_cleared =
        event.before == GradientBefore::kUndefined || event.before == GradientBefore::kZero;
    if (was_clipped_ && is_cleared) taken_step_ = event.at.step;
  }
  void on_gradient_values(const GradientValuesEvent& event, const RunState&, Findings&) override {
    finder_.on_gradient_values(event);
  }
  void on_gradients_scaled(const GradientsScaledEvent& event, const RunState& state,
                           Findings&) override {
    const std::optional<Clip> clip = finder_.find(event, state);
    is_clipped_ |= clip.has_value();
    if (clip.has_value() && std::isfinite(clip->norm) && clip->factor < 1) pending_ = clip;
  }

  void on_collective(const CollectiveEvent& event, const RunState& state,
                     Findings& findings) override {
    if (!event.averages) return;
    is_clipped_ = false;
    if (!pending_.has_value() || taken_step_ == event.at.step) return;
    const Clip clip = *std::exchange(pending_, std::nullopt);
    // One norm of all ranks is one factor. Of as many ranks as average others may be meant.
    if (clip.ranks > 1 && clip.ranks >= state.world_size()) return;
    if (event.at.cycle == last_cycle_) return;
    last_cycle_ = event.at.cycle;
    if (seen_++ == 0) first_step_ = event.at.step;
    least_ = std::min(least_, clip.factor);
    most_ = std::max(most_, clip.factor);
    if (seen_ >= kClippedCycles) findings.push_back(describe(clip, event, state));
  }

  void on_optimizer_step(const OptimizerStepEvent&, const RunState&, Findings&) override {
    forget_clip();
  }
  void on_dropped(const DroppedEvent&, const RunState&) override {
    forget_clip();
    finder_.on_dropped();
  }

  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    for (const Cohort& cohort : run.cohorts) {
      const auto differ =
          std::ranges::find(cohort.digests, DigestField::kClipFactor, &DigestsDiffer::field);
      const bool lasts = differ != cohort.digests.end() && differ->consecutive >= kClippedCycles;
      if (lasts && cohort.averages) findings.push_back(describe_sides(*differ));
    }
  }

 private:
  void forget_clip() {
    pending_.reset();
    is_clipped_ = false;
  }

  Finding describe(const Clip& clip, const CollectiveEvent& call, const RunState& state) const {
    Finding finding = about_gradients_of(clip.first, state);
    finding.severity = Severity::kError;
    finding.step = first_step_;
    finding.phase = Phase::kReduce;
    const std::string norm = clip.ranks > 1
                                 ? fmt::format("a norm over the shards of {} ranks", clip.ranks)
                                 : "each rank's own norm";
    finding.what = fmt::format(
        "gradients were clipped to norm {:.4g} by {} before they were averaged (before_reduce)",
        clip.limit, norm);
    finding.why = fmt::format(
        "collective #{} averages what this rank had scaled by {:.2g}, others by factors of their "
        "own: the mean of clipped gradients is not the clipped mean",
        call.seq, clip.factor);
    finding.fixes = fixes_for_order();
    finding.facts = {{fact::kCause, std::string("before_reduce")},
                     {fact::kFactorMin, least_},
                     {fact::kFactorMax, most_},
                     {fact::kMaxNorm, clip.limit},
                     {fact::kCollectiveSeq, static_cast<std::int64_t>(call.seq)}};
    return finding;
  }

  static Finding describe_sides(const DigestsDiffer& differ) {
    const bool is_partial =
        std::ranges::any_of(differ.sides, [](const RankSide& side) { return side.value == "1"; });
    const std::string cause = is_partial ? "partial" : "factor_differs";
    Finding finding = finding_on(all_of(differ.sides), differ.step);
    finding.severity = Severity::kError;
    finding.last_step = differ.last_step;
    finding.occurrences = std::max<std::int64_t>(differ.differing, 1);
    finding.what = fmt::format("gradients were clipped by other factors on other ranks: {} ({})",
                               factors_text(differ.sides), cause);
    finding.why = is_partial
                      ? "only some of the ranks clip: equal gradients give other weights on them"
                      : "the norm or the limit is each rank's own, and the replicas part";
    finding.fixes = fixes_for_order();
    finding.facts = {{fact::kCause, cause}};
    add_factors(differ, finding);
    return finding;
  }

  ClipFinder finder_;
  std::optional<Clip> pending_;  ///< of this cycle, before any average
  bool is_clipped_ = false;      ///< since the last backward, also with factor 1
  bool was_clipped_ = false;     ///< between that and the one before, of the same step
  std::int64_t taken_step_ = 0;  ///< in which clipped gradients were cleared before any average
  std::int64_t last_cycle_ = -1;
  std::int64_t seen_ = 0;
  std::int64_t first_step_ = 0;
  double least_ = 1;
  double most_ = 0;
};
}  // namespace

std::unique_ptr<Check> make_clip_before_reduce() { return std::make_unique<ClipBeforeReduce>(); }

}  // namespace ddpscope
