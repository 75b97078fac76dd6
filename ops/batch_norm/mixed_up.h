#pragma once

#include "ops/batch_norm/call.h"
#include "ops/device/place.h"

/// Ranks that are at different layers, calls or phases: a device finds that out, and the next call
/// throws.
namespace ddpscope::batch_norm {

/// What kernels write to; one per process.
cuda::MixedUp* mixed_up_notice(const device::Place& place);

/// A number for this call, which a kernel may report.
std::int64_t note_place(const Call& call, Phase phase);

/// @throws c10::Error once for what a kernel reported since, with layer, call and phase.
void throw_if_mixed_up();

}  // namespace ddpscope::batch_norm
