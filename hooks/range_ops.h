#pragma once

namespace ddpscope {

/// The operators whose targets, indices or probabilities have a range: what the program gives them
/// is looked at before they run.
bool install_range_ops() noexcept;

}  // namespace ddpscope
