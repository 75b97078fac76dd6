#pragma once

#include <cstdint>

#include "model/op_event.h"

namespace c10 {
struct TensorImpl;
}

namespace ddpscope {

/// Batch norm with running statistics and every kind of dropout, as the program calls them; batch
/// and instance norm also as calls of the layers whose tensors they are given.
bool install_training_ops() noexcept;

/// Over what a batch norm ran: asked on the calling thread right after a call in training, with its
/// weight and running mean, null where it has none. Null: each over the batch of its rank.
using ScopeOfNorm = NormScope (*)(const c10::TensorImpl* weight, const c10::TensorImpl* mean);
void ask_norms(ScopeOfNorm scope) noexcept;

/// A batch norm over several ranks runs in training, with so many values per channel on all of them
/// together. Few are told as `ddpscope::sync_batch_norm`, whose `input` is [values, channels].
void see_norm_over_ranks(std::int64_t values, std::int64_t channels) noexcept;

/// Whether the operators of BatchNorm and InstanceNorm are hooked.
bool normalizations_are_live() noexcept;

}  // namespace ddpscope
