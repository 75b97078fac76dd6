#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/rank_training.h"

namespace ddpscope {

/// Ranks that say the same of one thing.
struct RankSide {
  std::string value;
  RankList ranks;
  friend bool operator==(const RankSide&, const RankSide&) = default;
};

/// The first tensor at which the lists of registered tensors part.
struct ModelsDiffer {
  std::int64_t step = 0;
  std::string model;
  std::string cause;  ///< count, order, path, shape, dtype, trainable or buffer
  std::int64_t first_index = 0;
  std::vector<RankSide> paths;    ///< at that index, minority first; "" where the list is shorter
  std::vector<RankSide> values;   ///< of what `cause` names there: `[64, 3]`, `float32`, `frozen`
  std::vector<RankSide> counts;   ///< of tensors; one side where all have as many
  std::vector<RankSide> only_on;  ///< paths that not all ranks have, the first of them
  /// Some ranks have nothing of this model, and all of them have another one.
  bool is_of_some = false;
  bool is_copy = false;  ///< and no gradient reached it there
};

/// A parameter that received a gradient on some ranks and none on others.
struct GradientSide {
  std::string model;
  std::string path;
  RankList with;
  RankList without;
  /// Of the first of those without: why, in a word of model/missing_causes.h where it is known.
  std::vector<RankSide> causes = {};
};

/// Sets of parameters that received a gradient.
struct GradientSetsDiffer {
  std::int64_t step = 0;                 ///< the first of it
  std::int64_t steps = 0;                ///< number of compared steps in which sets differed
  std::vector<RankSide> sides;           ///< of the hashes of the sets, minority first
  std::vector<GradientSide> parameters;  ///< empty where the ranks left no list
};

/// Registered tensors that are not bit-equal.
struct DifferingTensor {
  std::string model;
  std::string path;
  bool is_buffer = false;
  bool requires_grad = false;
  std::vector<RankSide> sides;  ///< fingerprints in hex, minority first
  std::uint32_t model_number = 0;
};

/// How far the values of one tensor lie apart between two ranks, from four random projections of
/// it. Where many elements differ, the norm is within a factor of 2 in nine cases of ten.
struct EstimatedDifference {
  std::int64_t step = 0;
  std::string path;
  double norm = 0;      ///< 2-norm of the difference
  double relative = 0;  ///< over the 2-norm of the tensor; of a running mean over that of the
                        ///< standard deviations, which is then at least this
};

struct ValuesDiffer {
  std::int64_t step = 0;  ///< the first of it; 0: before training
  bool of_buffers = false;
  std::int64_t compared = 0;      ///< tensors; 0: the ranks left no list, only the sides are known
  std::int64_t equal_until = -1;  ///< last earlier step that was compared and equal; -1: none
  std::vector<RankSide> sides;    ///< of the fingerprint over all
  std::vector<DifferingTensor> tensors;  ///< in registered order, frozen ones last; not all
  std::int64_t differing = 0;            ///< number of tensors
  bool runs_on_all = false;              ///< a model that no gradient reaches and all ranks run
  bool beside_equal = false;             ///< trained ones of two dimensions or more are equal
  bool are_new = false;                  ///< none of them was registered in the step before
  std::string module_path;               ///< the deepest above those of them that train; above
                                         ///< all of them where none trains
  std::vector<EstimatedDifference> estimate;  ///< of the largest relative one; one at most
};

}  // namespace ddpscope
