#pragma once

namespace ddpscope {

/// Finds TorchScript models as `discover_models` finds modules: a `torch::jit::Module` of which the
/// program asks `parameters` or `named_parameters` becomes a root at once, under the names that it
/// has then. A root whose tensors a later one holds too ends.
void discover_script_models() noexcept;

}  // namespace ddpscope
