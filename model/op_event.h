#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/autograd_event.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// A tensor that capture meets for the first time.
struct TensorEvent {
  Stamp at;
  TensorInfo tensor;
};

/// One operator of a survey step that reads a trainable tensor, a tensor computed from one or a
/// registered buffer, in the order in which operators ended on their thread.
struct OpEvent {
  Stamp at;
  std::string op;
  ModuleId module = 0;
  bool grad_mode = true;
  bool in_backward = false;
  bool by_zero = false;  ///< a multiplication by a number that is zero
  std::vector<TensorId> inputs;
  std::vector<TensorInfo> outputs;
  std::vector<double> constants;    ///< numbers among its arguments, without integers
  double factor = 1;                ///< of a multiplication by a number, or a division
  std::optional<std::int64_t> dim;  ///< over which a softmax normalises, from 0
  std::optional<double> read;       ///< the number that it read from a tensor
  StackId stack = 0;                ///< where a gradient path may end here, and of losses
};

/// Over what a batch norm normalises: the batch of its rank, or those of all.
enum class NormScope : std::uint8_t {
  kRank,
  kAllRanks,     ///< the setting `sync_batch_norm` is on, as where the following are met
  kUndecided,    ///< the batch of the rank: the ranks have not compared their layers, or will not
  kExcluded,     ///< the same: the user named the layer
  kUnlisted,     ///< the same: the layer was not there when the ranks compared theirs
  kOtherThread,  ///< the same: it is called by another thread than the one that attached it
  kNameless,     ///< the same: a layer with neither weight nor running mean, by which it is told
};

/// With at most as many values per channel, batch norm is told of in every step.
inline constexpr std::int64_t kFewNormValues = 4;

/// Dropout or batch norm ran with `training` true. Sent whenever grad mode is off, of batch norm
/// then with running statistics alone; with grad mode on for batch norm only: on survey steps, and
/// in all steps where it has a few values per channel or was left out of what runs over all ranks.
struct TrainingOpEvent {
  Stamp at;
  std::string op;
  ModuleId module = 0;
  bool grad_mode = true;
  bool in_eval = false;             ///< so is the root of the module; all roots, where it has none
  TensorId weight = 0;              ///< of batch norm
  TensorId statistics = 0;          ///< the running mean of batch norm
  std::vector<std::int64_t> input;  ///< shape, of batch norm
  NormScope scope = NormScope::kRank;
};

/// Without grad, a loss or a comparison with labels judged what a forward computed in which dropout
/// or batch norm ran with `training` true. Sent whether hooks rest or not.
struct JudgedOutputEvent {
  Stamp at;
  std::string op;           ///< that judged
  std::string training_op;  ///< the first one that ran
  ModuleId module = 0;      ///< of that; 0: not known, as where hooks rest
  bool in_eval = false;     ///< as in `TrainingOpEvent`
  TensorId weight = 0;      ///< of batch norm
  /// Backwards in a row up to here, before each of which what ran so was not judged.
  std::int64_t unjudged_in_row = 0;
  StackId stack = 0;
};

}  // namespace ddpscope
