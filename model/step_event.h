#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "model/reduction_event.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// The end of a step, also of one in which hooks rest. Only where ranks are compared.
struct StepEndEvent {
  Stamp at;           ///< of the step that ended
  bool whole = true;  ///< hooks saw all of it
  std::int64_t unix_ns = 0;
  std::int32_t forwards = 0;  ///< so far, as are those below; a forward is one before a backward
  std::int32_t backwards = 0;
  std::int32_t optimizer_steps = 0;
  std::int32_t wait_us = 0;     ///< for data, before its forward; 0: not known, as below
  std::int32_t forward_us = 0;  ///< from there to the first backward
};

/// The end of a cycle in which hooks rested, where a record of its step is due. No check sees it.
struct RestedStepEvent {
  Stamp at;
  double wall_ms = 0;
  double overhead_us = 0;  ///< of it, spent in hooks
  std::int64_t unix_ns = 0;
  IssuedCalls calls;
};

/// Batch norm used its running statistics without a gradient, after a step; told once per step.
/// Only where ranks are compared.
struct EvaluationEvent {
  Stamp at;
};

/// Whether the ranks compare the values of their tensors at the end of this step.
constexpr bool is_compared_step(std::int64_t step) {
  return step <= 2 || step == 4 || step == 8 || step % 16 == 0;
}

/// Those that this rank made alone before it trained with others: comparing counts from there. Set
/// by the thread that judges.
inline constinit std::atomic<std::int64_t> lone_steps{0};

/// Parameters of small models are compared in each of the first steps as well.
/// The step of what was read when its model was attached.
inline constexpr std::int64_t kAtAttach = -1;
inline constexpr std::int64_t kComparesEachUntil = 64;

/// On a survey step a data loader asks a sampler for the rows of a batch.
struct BatchRequestEvent {
  Stamp at;
  std::int64_t rows = 0;       ///< of a full batch
  std::int64_t rows_left = 0;  ///< until the end of the epoch, those of this batch among them; 0:
                               ///< not known, as of a large set
  std::int32_t replicas = 0;   ///< that share the set, where a sampler makes shares; else 0
  std::int32_t replica = 0;    ///< which of them this share is for
};

/// What is known of the rows of a step after another request: of two samplers of one step one may
/// be that of an evaluation, and nothing is.
constexpr BatchRequestEvent join(const BatchRequestEvent& before, const BatchRequestEvent& now) {
  const bool is_told = before.rows != 0 || before.rows_left != 0;
  const bool is_second = is_told && before.at.step == now.at.step;
  return is_second ? BatchRequestEvent{.at = now.at, .rows = 0, .rows_left = 1} : now;
}

/// The bits of one tensor; 0 says nothing.
struct TensorBits {
  TensorId tensor = 0;
  std::uint64_t fingerprint = 0;
  GradientSketch sketch = kNoSketch;  ///< of its values
};

/// Fingerprints of what one thread trains, read at the end of a step, or before the first one.
struct TensorBitsEvent {
  std::int64_t step = 0;  ///< that ended, or kAtAttach
  bool of_buffers = false;
  std::vector<TensorBits> tensors;
  std::vector<ModuleId> ran;  ///< since the step before, where it was read before a backward
};

}  // namespace ddpscope
