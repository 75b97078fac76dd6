#include "model/cost_governor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddpscope {
namespace {
constexpr std::int64_t kChooseEvery = 16;
constexpr std::int64_t kSurveyEvery = 64;
constexpr std::int64_t kArmedCycles = 4;
constexpr std::int64_t kArmAtMostEvery = 64;
constexpr int kMostLoops = 4;
constexpr std::int64_t kInARow = 4;      // what one cycle leaves behind is seen in the next
constexpr std::size_t kLeftOut = 2;      // of 16: a cycle in which the machine did something else
constexpr std::int64_t kMaxStretch = 8;  // a hook in which the thread lost its core is no reason
constexpr double kOfBudget = 0.75;       // estimates are not exact
// Of what the clock sees of hooks at rest: most of them return too soon to read it. In four models
// 5 to 7 times as much (benchmarks/results/hooks_at_rest-2026-11-23.md).
constexpr double kRestWeight = 5;
constexpr double kMostForRests = 0.5;  // of what is allowed, else a tiny model is never watched
constexpr std::int64_t kWeighEvery = 8;
constexpr std::int64_t kCertainPairs = 64;  // as many tell, even on a busy machine
constexpr double kCertain = 0.2;  // so small a share of the difference is its standard error
constexpr double kMaxWeight = 4;  // more is the noise of the machine

// Of how many cycles one may cost this much, when `left` is allowed per cycle; a power of two.
std::int64_t one_of(double cost, double left) {
  std::int64_t power = 1;
  while (cost > static_cast<double>(power) * left && power < CostGovernor::kRarest) power *= 2;
  return power;
}
}  // namespace

double CostGovernor::Recent::mean() const {
  const std::size_t known = std::min(count_, values_.size());
  if (known == 0) return 0;
  std::array<double, 16> sorted = values_;
  std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(known));
  const std::size_t kept = known > 4 * kLeftOut ? known - kLeftOut : known;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(kept);
  return std::accumulate(sorted.begin(), end, 0.0) / static_cast<double>(kept);
}

Watch CostGovernor::cycle_ended(const Cycle& ended, bool may_rest) {
  ++cycles_;
  const bool is_cut = std::exchange(is_cut_, false);
  if (!is_cut) learn(ended);
  if (cycles_ > full_cycles_) count(ended);
  if (cycles_ > full_cycles_ && !is_cut) compare(ended);
  if (cycles_ >= full_cycles_ && (cycles_ - full_cycles_) % kChooseEvery == 0) choose(may_rest);
  if (!may_rest) structure_every_ = 1;
  watch_ = next();
  return watch_;
}

void CostGovernor::learn(const Cycle& ended) {
  wall_.add(ended.wall_ms);
  if (watch_ == Watch::kNothing) {
    resting_.add(ended.hooks_ms);
    return;
  }
  const double structure_ms = ended.hooks_ms - ended.values_ms;
  if (ended.surveyed) {
    survey_ms_ = std::max(structure_ms - structure_.mean(), 0.0);
    return;
  }
  structure_.add(structure_ms);
  if (watch_ == Watch::kFull) values_.add(ended.values_ms);
}

void CostGovernor::count(const Cycle& ended) {
  ++coverage_.cycles;
  coverage_.wall_ms += ended.wall_ms;
  coverage_.hooks_ms += ended.hooks_ms;
  gap_ = watch_ == Watch::kNothing ? gap_ + 1 : 0;
  values_gap_ = watch_ == Watch::kFull ? 0 : values_gap_ + 1;
  coverage_.structure += watch_ != Watch::kNothing;
  coverage_.full += watch_ == Watch::kFull;
  coverage_.longest_gap = std::max(coverage_.longest_gap, gap_);
  coverage_.longest_values_gap = std::max(coverage_.longest_values_gap, values_gap_);
}

void CostGovernor::compare(const Cycle& ended) {
  if (watch_ == Watch::kNothing) {
    watched_row_ = {};
    rest_row_.sum_ms += ended.wall_ms;
    ++rest_row_.cycles;
    return;
  }
  watched_row_.sum_ms += ended.wall_ms;
  ++watched_row_.cycles;
  if (ended.surveyed) rest_row_ = {};
  if (watched_row_.cycles < kInARow || rest_row_.cycles == 0) return;
  const std::pair<float, float> pair(rest_row_.mean(), watched_row_.mean());
  rest_row_ = {};
  if (pairs_.size() < kPairs) {
    pairs_.push_back(pair);
  } else {
    pairs_[static_cast<std::size_t>(pair_count_) % kPairs] = pair;
  }
  ++pair_count_;
  if (pair_count_ % kWeighEvery == 0) weigh();
}

// Pairs are of cycles in full.
void CostGovernor::weigh() {
  const Difference seen = difference();
  const double clock_ms = structure_.mean() + values_.mean() - resting_.mean();
  if (clock_ms <= 0 || !is_certain(seen)) return;
  weight_ = std::clamp(seen.watched_extra * seen.resting_ms / clock_ms, 1.0, kMaxWeight);
}

bool CostGovernor::is_certain(const Difference& seen) const {
  if (seen.pairs >= kCertainPairs) return true;
  // The median of values that are normally distributed, by their quartiles.
  const double error =
      0.93 * (seen.upper - seen.lower) / std::sqrt(static_cast<double>(seen.pairs));
  return error < kCertain * seen.watched_extra;
}

CostGovernor::Difference CostGovernor::difference() const {
  if (pairs_.empty()) return {};
  std::vector<double> resting;
  std::vector<double> extra;
  for (const auto& [rest_ms, watched_ms] : pairs_) {
    resting.push_back(rest_ms);
    extra.push_back(watched_ms / rest_ms - 1);
  }
  std::ranges::sort(resting);
  std::ranges::sort(extra);
  return {.pairs = pair_count_,
          .resting_ms = resting[resting.size() / 2],
          .watched_extra = extra[extra.size() / 2],
          .lower = extra[extra.size() / 4],
          .upper = extra[extra.size() * 3 / 4]};
}

void CostGovernor::choose(bool may_rest) {
  const bool is_over = weight_ * coverage_.hooks_ms > budget_ * coverage_.wall_ms;
  stretch_ =
      is_over ? std::min(2 * stretch_, kMaxStretch) : std::max<std::int64_t>(stretch_ / 2, 1);
  const double stretch = weight_ * static_cast<double>(stretch_);
  const double allowed = kOfBudget * budget_ * wall_.mean();
  const double structure = stretch * (structure_.mean() + survey_ms_ / kSurveyEvery);
  const double values = stretch * values_.mean();
  structure_every_ = 1;
  if (structure < allowed || !may_rest) {
    values_every_ = one_of(values, allowed - structure);
    return;
  }
  const double resting = std::min(kRestWeight * resting_.mean(), kMostForRests * allowed);
  structure_every_ = one_of(structure + values, allowed - resting);
  values_every_ = structure_every_;
}

Watch CostGovernor::next() const {
  const std::int64_t next_cycle = cycles_ + 1;
  if (next_cycle <= full_cycles_ || next_cycle <= armed_until_) return Watch::kFull;
  if (structure_every_ > 1) {
    const std::int64_t place = next_cycle % (kInARow * structure_every_);
    return place < kInARow ? Watch::kFull : Watch::kNothing;
  }
  return next_cycle % values_every_ == 0 ? Watch::kFull : Watch::kStructure;
}

void CostGovernor::loop_began() {
  if (last_loop_ == cycles_ || loops_ == kMostLoops) return;
  ++loops_;
  last_loop_ = cycles_;
  armed_until_ = cycles_ + full_cycles_;
}

bool CostGovernor::arm() {
  if (last_armed_ != 0 && cycles_ - last_armed_ < kArmAtMostEvery) return false;
  last_armed_ = cycles_ + 1;
  armed_until_ = std::max(armed_until_, cycles_ + 1 + kArmedCycles);
  return true;
}

}  // namespace ddpscope
