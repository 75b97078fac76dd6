#pragma once

#include <algorithm>
#include <cstdint>

#include "model/finding.h"

namespace ddpscope {

/// What one rank says of one step, to be compared with other ranks; plain bytes. A hash or a
/// fingerprint of 0 says nothing; where `optimizers` is 0, nothing is said of groups, members and
/// rate, and 0 members alone are not said either. A later digest of the same step replaces an
/// earlier one: with phase kReduce it is of a step that has not ended, by a rank that stood still
/// after a backward of it.
struct StepDigest {
  std::int64_t step = 0;  ///< that ended; 0 is before the first
  std::int64_t cycle = 0;
  std::int64_t unix_ns = 0;
  std::uint64_t structure = 0;   ///< of the ordered parameters and buffers of all models
  std::uint64_t gradients = 0;   ///< of the set of parameters that received one in this step
  std::uint64_t optimizers = 0;  ///< of type, groups, members, rates, decays, momenta
  std::uint64_t state = 0;       ///< with which optimizers began, state_word()
  std::uint64_t parameters = 0;  ///< fingerprint over the bits of all parameters
  std::uint64_t buffers = 0;
  std::uint64_t batch = 0;   ///< fingerprint of what the first forward was given
  std::uint64_t random = 0;  ///< fingerprint of the random state before the first dropout
  double learning_rate = 0;  ///< of the first group of the first optimizer, as the next two
  double weight_decay = 0;
  double momentum = 0;               ///< of Adam its first beta
  double loss_scale = 0;             ///< 0: none was seen
  double clip_factor = 0;            ///< of the clips of the step; 1: there were none, 0: not known
  std::int32_t optimizer_steps = 0;  ///< so far, as all counts below
  std::int32_t skipped_steps = 0;
  std::int32_t forwards = 0;
  std::int32_t backwards = 0;
  std::int32_t call_count = 0;  ///< since the first backward
  std::int32_t groups = 0;      ///< of all optimizers, as are members
  std::int32_t members = 0;
  std::int32_t received = 0;    ///< parameters that received a gradient in this step
  std::int32_t wait_us = 0;     ///< from the end of the step before to the forward; 0: not known
  std::int32_t forward_us = 0;  ///< from there to the first backward; 0: not known
  Phase phase = Phase::kOptimizer;
  bool averages = false;   ///< a collective wrote gradients, so far
  bool evaluated = false;  ///< batch norm used its running statistics, or they were saved, so far
  bool second_order = false;  ///< its last backward was autograd::grad() with create_graph
  float targets = 0;          ///< valid ones of a loss that is their mean; 0: not known, or weighed
};
static_assert(sizeof(StepDigest) == 176);

/// How a rank's steps alone ended.
enum class LoneEnd : std::int32_t {
  kWithValues = 0,  ///< it was brought what it trains from there on, or trains another model
  kWithCall = 1,  ///< only the first call came: where all ranks made as many, the steps are of all
  kNever = 2,     ///< its threads step optimizers of their own, each in its time
};

/// Steps that a rank made alone before it trained with others, and what it had counted by then;
/// plain bytes.
struct LoneSteps {
  std::int32_t steps = 0;
  LoneEnd end = LoneEnd::kWithValues;
  std::int32_t optimizer_steps = 0;
  std::int32_t forwards = 0;
  std::int32_t backwards = 0;
  std::int32_t call_count = 0;
};
static_assert(sizeof(LoneSteps) == 24);

/// How many members of optimizers began with a state, and a fingerprint of 32 bits of all of it.
constexpr std::uint64_t state_word(std::int64_t members, std::uint64_t fingerprint) {
  constexpr std::uint64_t kMost = (std::uint64_t{1} << 31) - 1;
  const std::uint64_t count = std::min(static_cast<std::uint64_t>(members), kMost - 1) + 1;
  return count << 32 | (fingerprint ^ fingerprint >> 32) << 32 >> 32;
}

}  // namespace ddpscope
