#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checks/run_state.h"

namespace ddpscope {

/// What tensors of a run are there for. Words of the catalogue.
enum class MemoryClass : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kSavedActivations,
  kBatch,
  kOther,
};
constexpr std::size_t kMemoryClasses = 6;
std::string_view word_of(MemoryClass memory);

struct MemoryOfModule {
  std::string path;
  std::int64_t bytes = 0;
};

/// Bytes by class as far as events told them: of a run that was surveyed last in another step,
/// those of that step.
struct MemoryUse {
  std::array<std::int64_t, kMemoryClasses> bytes{};
  std::vector<MemoryOfModule> saved_by_module;  ///< the largest first
  std::int64_t batch_rows = 0;                  ///< of the largest input; 0: not known

  std::int64_t& of(MemoryClass memory) { return bytes[static_cast<std::size_t>(memory)]; }
  std::int64_t of(MemoryClass memory) const { return bytes[static_cast<std::size_t>(memory)]; }
  std::int64_t all() const;
  MemoryClass largest() const;
};

MemoryUse memory_use(const RunState& state);

}  // namespace ddpscope
