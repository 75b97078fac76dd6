#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddpscope {

// Part of model/rank_compare_event.h: what ranks train with, and what it makes of them.

using RankList = std::vector<std::int64_t>;  ///< in order

/// What the samplers of a rank share a set of data out by; `replicas` is 0 where none does.
struct SamplerShare {
  std::int64_t replicas = 0;
  std::int64_t replica = 0;

  bool operator==(const SamplerShare&) const = default;
};

/// Shares of the data that no rank reads.
struct UnreadShares {
  std::int64_t step = 0;  ///< the first in which a rank began an epoch
  std::int64_t replicas = 0;
  std::vector<std::int64_t> unread;
};

/// Ranks that train on the same batches.
struct SameBatches {
  std::int64_t step = 0;  ///< the first of three in a row
  RankList ranks;
  std::int64_t steps = 0;  ///< in which they are equal; of those that were compared, 256 at most
  double overlap_ratio = 0;
  std::string shape;              ///< `[32, 1, 8, 8] float32`; "" where it is not known
  bool in_another_order = false;  ///< each rank goes through the whole set
  SamplerShare share;             ///< of all these ranks
};

/// Ranks that draw the same random numbers.
struct SameRandom {
  std::int64_t step = 0;  ///< the first of it
  RankList ranks;
  std::int64_t steps = 0;  ///< in which their states were equal
  std::string seed;
  std::string op;
  std::string module;
};

/// Ranks whose losses are means over different numbers of targets. Told at the end of the first
/// window that says so.
struct LossWeights {
  std::int64_t step = 0;     ///< the last of the window
  std::int64_t steps = 0;    ///< in the window
  double ratio = 1;          ///< of the largest to the smallest weight of a target; median of steps
  std::int64_t at_step = 0;  ///< the step of that ratio, as what follows
  std::vector<double> targets;  ///< of one loss, by rank of the cohort
  std::int64_t backwards = 0;   ///< 0: not known
  std::string op;               ///< "" where the ranks left none, as module
  std::string module;
};

/// The gradients that were not finite first, on the ranks on which they arrived so.
struct NonfiniteOrigin {
  std::int64_t step = 0;
  RankList ranks;
  std::int64_t nan_count = 0;  ///< on the first of the ranks, as what follows
  std::int64_t inf_count = 0;
  std::string model;
  std::string path;  ///< of the parameter that was first in backward
  std::string what;  ///< as that rank said it
};

/// A rank that comes last to the first collective of most steps. Times are medians over the steps.
struct Straggler {
  std::int64_t rank = 0;
  std::int64_t step = 0;   ///< the last of those compared
  std::int64_t steps = 0;  ///< compared
  std::int64_t late = 0;   ///< of which this rank came last, by more than noise
  double lost_ms = 0;      ///< until it came, after the median of the others
  double step_ms = 0;
  std::string phase;  ///< in which it lost the most: data, forward, backward, optimizer; "" unknown
  double phase_ms = 0;
  double others_ms = 0;               ///< the median of the others in that phase
  std::vector<double> lost_per_part;  ///< `lost_ms` of five parts of those steps, in order
  double batch_ratio = 0;             ///< elements of its batches over those of the others; 0: not
                                      ///< known
};

/// What one rank counted by its last digest.
struct RankCounts {
  std::int64_t rank = 0;
  std::int64_t step = 0;
  std::int64_t cycle = 0;
  std::int64_t unix_ns = 0;
  std::int64_t forwards = 0;
  std::int64_t backwards = 0;
  std::int64_t optimizer_steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t calls = 0;
  bool evaluated = false;  ///< it used or saved its running statistics
};

/// What some ranks alone make their losses with.
struct TrainedOnSome {
  std::string module;
  std::string op;  ///< `aten::tanh`; empty: the module is in eval mode
  RankList ranks;
};

/// Of steps in each of which it was so.
struct TrainingDiffers {
  std::int64_t step = 0;  ///< the first of them
  std::int64_t last_step = 0;
  std::int64_t steps = 0;
  std::vector<TrainedOnSome> parts = {};  ///< empty where the ranks do not differ
};

}  // namespace ddpscope
