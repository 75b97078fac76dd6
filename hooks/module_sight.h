#pragma once

#include <torch/nn/module.h>

#include <string>

namespace ddpscope {

enum class Seen : std::uint8_t { kExact, kInferred, kBlind };

/// How the calls of a module's forward are seen.
struct ModuleSight {
  Seen seen = Seen::kBlind;
  std::string why;
  bool is_builtin = false;  ///< the forward itself tells, not an operator
  bool returns_one_tensor = false;
};
ModuleSight sight_of(const torch::nn::Module& module);

/// BatchNorm and InstanceNorm: their forward is compiled into the program, and is seen at the one
/// operator it calls.
bool is_normalization(const torch::nn::Module& module);

/// The demangled class; of an observed module the class that is observed.
std::string type_of(const torch::nn::Module& module);

/// What the public header's class template makes of a module.
enum class Observation : std::uint8_t { kNone, kObserved, kObservedTensor };
void set_observation(Observation (*of)(const torch::nn::Module& module)) noexcept;

}  // namespace ddpscope
