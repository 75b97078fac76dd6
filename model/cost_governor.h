#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/hot_code.h"

namespace ddpscope {

/// How much of a cycle the hooks look at.
enum class Watch : std::uint8_t {
  kNothing,    ///< the clock, the loss and errors
  kStructure,  ///< all but passes over values
  kFull,
};

/// Keeps the time of hooks within a share of the time of the run: says after each cycle how much of
/// the next one is watched. The first cycles are watched in full. Then passes over values are left
/// out of some cycles; where that is not enough, all hooks rest in some, and four cycles in a row
/// are watched between rests. Ranks that rest differently still watch common cycles: one in 2, 4,
/// 8, ... by the number of the cycle.
/// Not thread-safe: the owner serialises calls.
class CostGovernor {
 public:
  struct Cycle {
    double wall_ms = 0;
    double hooks_ms = 0;
    double values_ms = 0;  ///< the part of `hooks_ms` that passes over values took
    bool surveyed = false;
  };
  /// How the cycles after the first ones were watched.
  struct Coverage {
    std::int64_t cycles = 0;
    std::int64_t structure = 0;  ///< at least
    std::int64_t full = 0;
    std::int64_t longest_gap = 0;  ///< cycles in a row without structure
    std::int64_t longest_values_gap = 0;
    double wall_ms = 0;
    double hooks_ms = 0;
  };
  /// What watching really takes, in the cycles of this very run: the clock of hooks misses what
  /// they leave to others, such as cold caches.
  struct Difference {
    std::int64_t pairs = 0;
    double resting_ms = 0;     ///< median of the cycles in which hooks rest
    double watched_extra = 0;  ///< by which share those that are watched take longer; median
    double lower = 0;          ///< quartiles of it
    double upper = 0;
  };

  CostGovernor(double budget_percent, std::int64_t full_cycles)
      : budget_(budget_percent / 100), full_cycles_(full_cycles) {}

  /// How much of the next cycle is watched. `may_rest`: hooks may rest in whole cycles.
  DDPSCOPE_HOT Watch cycle_ended(const Cycle& ended, bool may_rest);
  /// Something is wrong: the next cycles are watched in full. At most once in 64 cycles, else
  /// false.
  bool arm();
  /// A loop with an optimizer of its own begins: as many cycles as at the start are watched in
  /// full. At most four times.
  void loop_began();
  /// Whether hooks have taken more of the cycle in progress than the budget allows.
  bool is_over(const Cycle& so_far) const {
    return weight_ * so_far.hooks_ms > budget_ * so_far.wall_ms;
  }
  /// Hooks rest in what is left of the cycle in progress, from which nothing is learnt.
  void cut() {
    watch_ = Watch::kNothing;
    is_cut_ = true;
  }
  /// The cycle in progress is watched in full from here on.
  void wake() { watch_ = Watch::kFull; }

  const Coverage& coverage() const { return coverage_; }
  /// Of each pair of watched cycles and the rest before it. No pairs where hooks never rest.
  Difference difference() const;
  /// Of how many cycles one is watched, and one with values; kRarest where that is still too much.
  static constexpr std::int64_t kRarest = 256;
  std::int64_t structure_every() const { return structure_every_; }
  std::int64_t values_every() const { return values_every_; }

 private:
  /// What the last cycles took, the largest ones left out.
  class Recent {
   public:
    void add(double value) { values_[count_++ % values_.size()] = value; }
    double mean() const;

   private:
    std::array<double, 16> values_{};
    std::size_t count_ = 0;
  };
  /// The mean of cycles in a row.
  struct Row {
    double sum_ms = 0;
    std::int64_t cycles = 0;
    double mean() const { return sum_ms / static_cast<double>(cycles); }
  };
  DDPSCOPE_HOT void learn(const Cycle& ended);
  DDPSCOPE_HOT void compare(const Cycle& ended);
  DDPSCOPE_HOT void count(const Cycle& ended);
  void weigh();
  bool is_certain(const Difference& seen) const;
  void choose(bool may_rest);
  DDPSCOPE_HOT Watch next() const;

  const double budget_;
  const std::int64_t full_cycles_;
  std::int64_t cycles_ = 0;
  Watch watch_ = Watch::kFull;
  bool is_cut_ = false;
  Recent wall_, structure_, values_, resting_;
  double survey_ms_ = 0;
  std::int64_t structure_every_ = 1;
  std::int64_t values_every_ = 1;
  std::int64_t stretch_ = 1;  // more than the recent costs ask for: the sum was over the budget
  std::int64_t armed_until_ = 0;
  std::int64_t last_armed_ = 0;
  std::int64_t last_loop_ = 0;
  int loops_ = 0;
  std::int64_t gap_ = 0;
  std::int64_t values_gap_ = 0;
  Coverage coverage_;
  Row rest_row_, watched_row_;
  static constexpr std::size_t kPairs = 1024;
  std::vector<std::pair<float, float>> pairs_;  // resting, watched; the last ones
  std::int64_t pair_count_ = 0;
  // Of a millisecond of the hooks' clock: what it does not see is left to others. Until this run
  // has told, and where hooks never rest, what the larger of five workloads told: 1.1 to 1.6.
  double weight_ = 1.5;
};

}  // namespace ddpscope
