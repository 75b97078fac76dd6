#include "exchange/lone_steps.h"

namespace ddpscope {
namespace {
// A file may say any number.
std::int32_t minus(std::int32_t count, std::int32_t before) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(count) -
                                   static_cast<std::uint32_t>(before));
}

/// Others hold until the next of their kind.
bool is_of_one_step(BlobKind kind) {
  using enum BlobKind;
  return kind == kGradients || kind == kFingerprints || kind == kReductions || kind == kSketches ||
         kind == kNonfinite || kind == kSyncPattern || kind == kMissing || kind == kEpoch ||
         kind == kLoad || kind == kLeft || kind == kGraph;
}
}  // namespace

void count_from(const LoneSteps& lone, StepDigest& digest) {
  digest.step = step_after(digest.step, lone.steps);
  digest.optimizer_steps = minus(digest.optimizer_steps, lone.optimizer_steps);
  digest.forwards = minus(digest.forwards, lone.forwards);
  digest.backwards = minus(digest.backwards, lone.backwards);
  digest.call_count = minus(digest.call_count, lone.call_count);
}

void count_from(const LoneSteps& lone, std::vector<Blob>& blobs) {
  if (lone.steps == 0) return;
  std::erase_if(blobs, [&lone](const Blob& blob) {
    return is_of_one_step(blob.kind) && blob.step <= lone.steps;
  });
  for (Blob& blob : blobs) {
    blob.step = step_after(blob.step, lone.steps);
    // Models are looked at when a step ends: a change before the first is told with the second.
    if (blob.kind == BlobKind::kTensors && blob.step == 2) blob.step = 1;
  }
}

}  // namespace ddpscope
