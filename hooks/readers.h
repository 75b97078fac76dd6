#pragma once

namespace ddpscope {

/// The operators that read several tensors and return one. True when all of them are hooked.
bool install_readers() noexcept;
/// Those of them that may read the batch of a step first.
bool install_first_readers() noexcept;

}  // namespace ddpscope
