#pragma once

namespace ddpscope {

/// The name in an `OpEvent` of autograd::grad() without create_graph, which is no operator: it made
/// its outputs, and reads nothing that is told.
inline constexpr char kReturnedGradients[] = "autograd::grad";

}  // namespace ddpscope
