#pragma once

namespace ddpscope {

/// From here on the exchanges of synchronised batch norms are noted in the call log with their
/// layer, call and phase, and clips of gradients are seen as those of LibTorch are. Once.
void watch_own_ops() noexcept;

}  // namespace ddpscope
