#pragma once

namespace ddpscope {

/// Tells new input shapes of convolutions while cuDNN searches an algorithm for each.
bool install_convolution_watch() noexcept;

}  // namespace ddpscope
