#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// A batch norm layer as it normalised in training mode once.
struct NormLayer {
  ModelId model = 0;  ///< 0: registered nowhere
  std::string path = {};
  std::vector<std::int64_t> input = {};
  std::int64_t values_per_channel = 0;
  NormScope scope = NormScope::kRank;

  bool over_ranks() const { return scope == NormScope::kAllRanks; }
  auto operator<=>(const NormLayer&) const = default;
};

/// How many values each channel of `[rows, channels, ...]` has; 0 if it has no channels.
std::int64_t values_per_channel(const std::vector<std::int64_t>& shape);

/// The layer whose tensors the operator was given, or that ran over ranks. Nothing where no
/// gradient path was recorded, in evaluation, and for operators that are not batch norm or whose
/// input was not told.
std::optional<NormLayer> trained_norm(const TrainingOpEvent& event, const RunState& state);

/// The layer that LibTorch refused to normalise a single value per channel; nothing for other
/// errors. Its place is known where it is the module that was asked for its mode last.
std::optional<NormLayer> refused_norm(const ErrorEvent& event, const RunState& state);

/// `model` and `module_path` of the deepest module that holds these layers of one model.
void place_at(const std::vector<NormLayer>& layers, const RunState& state, Finding& finding);

}  // namespace ddpscope
