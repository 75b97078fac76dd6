#include "exchange/loss_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string_view>

namespace ddpscope {
namespace {
struct Window {
  std::size_t steps = 0;
  double ratio = 0;  ///< above which its median speaks
};
constexpr std::array<Window, 2> kWindows = {{{.steps = 10, .ratio = 3}, {50, 1.5}}};
constexpr Window kByPeriod = {.steps = 10, .ratio = 1.5};  // of ranks whose periods differ, in each

constexpr double kSameNumber = 1e-6;

/// What a rank says of the loss of one step.
struct ToldLoss {
  double targets = 0;
  std::string_view kind;  ///< operator, classes and module
  std::int64_t backwards = 0;
  bool divides_by_backwards = false;  ///< it is a part of a mean over all of the step
  double scale = 0;  ///< a number that it is multiplied with; 0: not known of this step
};
using ToldLosses = std::map<std::int64_t, ToldLoss>;

struct LossRow {
  std::int64_t step = 0;
  double ratio = 1;
  std::vector<double> targets;  ///< by rank
  ToldLoss of_first;
  bool is_by_period = false;  ///< the ranks' losses have as many, and each rank adds other numbers
};

void add_kinds(const RingReader& ring, ToldLosses& told) {
  std::map<std::int64_t, std::string_view> kinds;  // from these steps on
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == BlobKind::kLoss) kinds[blob.step] = blob.bytes;
  }
  for (auto& [step, loss] : told) {
    const auto after = kinds.upper_bound(step);
    if (after != kinds.begin()) loss.kind = std::prev(after)->second;
  }
}

ToldLosses losses_of(const RingReader& ring) {
  ToldLosses told;
  std::optional<std::int64_t> backwards;  // until the step before
  double loss_scale = 0;                  // known of surveyed steps
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->phase == Phase::kReduce) continue;
    const std::int64_t since = backwards ? digest->backwards - *backwards : 0;
    backwards = digest->backwards;
    if (digest->loss_scale > 0) loss_scale = digest->loss_scale;
    if (!std::isfinite(digest->targets) || digest->targets <= 0) continue;
    const double of_all = loss_scale * static_cast<double>(since);
    told[digest->step] = {.targets = digest->targets,
                          .kind = {},
                          .backwards = std::max<std::int64_t>(since, 0),
                          .divides_by_backwards = std::abs(of_all - 1) < kSameNumber,
                          .scale = digest->loss_scale};
  }
  if (!told.empty()) add_kinds(ring, told);
  return told;
}

double most_over_least(const std::vector<double>& numbers) {
  const auto [least, most] = std::ranges::minmax(numbers);
  return most / least;
}

/// Whether each rank multiplies its mean by a number that is in proportion to its targets.
bool are_weighed_by_targets(std::vector<double> targets, const std::vector<double>& scales) {
  constexpr double kSame = 1 + 1e-3;
  const bool are_known = std::ranges::all_of(scales, [](double scale) { return scale > 0; });
  if (!are_known || most_over_least(scales) < kSame) return false;
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] /= scales[i];
  return most_over_least(targets) < kSame;
}

class LossComparison {
 public:
  explicit LossComparison(const RingList& rings) {
    for (const RingReader* ring : rings) losses_.push_back(losses_of(*ring));
  }

  std::optional<LossWeights> run() {
    for (const auto& [step, first] : losses_.front()) {
      auto row = row_of(step, first);
      if (!row) continue;
      rows_.push_back(*std::move(row));
      if (rows_.size() > kWindows.back().steps) rows_.pop_front();
      for (const Window& window : kWindows) {
        if (auto told = judge(window)) return told;
      }
      if (are_by_period()) {
        if (auto told = judge(kByPeriod)) return told;
      }
    }
    return std::nullopt;
  }

 private:
  /// Nothing where a rank tells no loss of that step, or another one.
  std::optional<LossRow> row_of(std::int64_t step, const ToldLoss& first) {
    LossRow row{.step = step, .ratio = 1, .targets = {}, .of_first = first};
    bool are_parts = true;
    std::vector<double> of_steps;
    std::vector<double> scales;
    for (const ToldLosses& of_rank : losses_) {
      const auto told = of_rank.find(step);
      if (told == of_rank.end() || told->second.kind != first.kind) return std::nullopt;
      row.targets.push_back(told->second.targets);
      of_steps.push_back(told->second.targets * static_cast<double>(told->second.backwards));
      are_parts &= told->second.divides_by_backwards;
      scales.push_back(told->second.scale);
    }
    const auto [fewest, largest] = std::ranges::minmax(row.targets);
    row.is_by_period = are_parts && fewest == largest;
    if (are_parts) row.targets = of_steps;
    // Other numbers are known of some steps alone.
    are_weighed_ |= are_weighed_by_targets(row.targets, scales);
    row.ratio = are_weighed_ ? 1 : most_over_least(row.targets);
    return row;
  }

  bool are_by_period() const {
    if (rows_.size() < kByPeriod.steps) return false;
    return std::all_of(rows_.end() - kByPeriod.steps, rows_.end(), [](const LossRow& row) {
      return row.is_by_period && row.ratio > kByPeriod.ratio;
    });
  }

  std::optional<LossWeights> judge(const Window& window) const {
    if (rows_.size() < window.steps) return std::nullopt;
    std::vector<const LossRow*> last;
    for (std::size_t i = rows_.size() - window.steps; i < rows_.size(); ++i) {
      last.push_back(&rows_[i]);
    }
    // The lower one of two: of epochs of two batches every other one is the last.
    const auto middle = last.begin() + static_cast<std::ptrdiff_t>((last.size() - 1) / 2);
    std::ranges::nth_element(last, middle, {}, &LossRow::ratio);
    if ((*middle)->ratio <= window.ratio) return std::nullopt;
    return describe(**middle, static_cast<std::int64_t>(window.steps));
  }

  LossWeights describe(const LossRow& row, std::int64_t steps) const {
    LossWeights weights{.step = rows_.back().step,
                        .steps = steps,
                        .ratio = row.ratio,
                        .at_step = row.step,
                        .targets = row.targets,
                        .backwards = row.of_first.backwards,
                        .op = {},
                        .module = {}};
    const std::string_view kind = row.of_first.kind;
    const std::size_t op = kind.find(' ');
    const std::size_t module = op == kind.npos ? op : kind.find(' ', op + 1);
    if (module != kind.npos) {
      weights.op = kind.substr(0, op);
      weights.module = kind.substr(module + 1);
    }
    return weights;
  }

  std::vector<ToldLosses> losses_;  // by rank
  std::deque<LossRow> rows_;
  bool are_weighed_ = false;
};
}  // namespace

void compare_losses(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size() || !cohort.averages) return;
  if (auto told = LossComparison(rings).run()) cohort.loss_weights.push_back(*std::move(told));
}

}  // namespace ddpscope
