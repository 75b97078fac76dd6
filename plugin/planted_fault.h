#pragma once

namespace ddpscope {

/// `ddpscope selftest` asks this process, by the variable DDPSCOPE_FAULT, to plant a fault and to
/// end when it was found. Called when the library is loaded, before any hook is put in.
void prepare_fault_if_asked();

/// Plants it, when the session runs. The variable is taken out of the environment: the program's
/// own children train undisturbed.
void plant_fault_if_asked() noexcept;

}  // namespace ddpscope
