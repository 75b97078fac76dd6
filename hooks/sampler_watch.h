#pragma once

namespace ddpscope {

/// Tells how many rows LibTorch's samplers have left where a data loader asks them for a batch.
bool install_sampler_watch() noexcept;

}  // namespace ddpscope
