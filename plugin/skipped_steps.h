#pragma once

#include <cstdint>
#include <vector>

namespace ddpscope {

/// Counts the steps that a program skipped: backwards without a step, once their number per step is
/// known. Where gradients are averaged, a backward that leads to no more collectives than a step
/// has is none of them, as one that a rank makes for itself to look at its gradients. A step
/// without a backward and its collectives, as one that a rank repeats, takes one off.
class SkippedSteps {
 public:
  struct Step {
    std::int32_t backwards = 0;  ///< since the step before, as are the collectives
    std::int32_t calls = 0;
    bool averages = false;  ///< the program, so far
  };
  void step_ended(const Step& step);
  std::int32_t count() const { return count_; }

 private:
  std::int32_t skipped_before(const Step& step) const;
  void count_early();

  std::int32_t count_ = 0;
  std::int32_t backwards_ = 0;  // per step, and how often in a row it was that
  std::int32_t agreed_ = 0;
  std::int32_t most_calls_ = 0;  // of such a step
  std::int32_t least_calls_ = 0;
  Step last_;                // that had another number than the one before
  std::vector<Step> early_;  // with other numbers, before it was known
};

}  // namespace ddpscope
