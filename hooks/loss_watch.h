#pragma once

namespace ddpscope {

/// The values of what backward begins at, and where they came from if they are not finite.
bool install_loss_watch() noexcept;

}  // namespace ddpscope
