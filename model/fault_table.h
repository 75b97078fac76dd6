#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace ddpscope {

/// The variable by which `ddpscope selftest` asks a process to plant a fault.
inline constexpr char kFaultVariable[] = "DDPSCOPE_FAULT";

enum class FaultBegin : std::uint8_t { kFromStart, kMidway };
/// The ranks that make the mistake.
enum class FaultRanks : std::uint8_t {
  kAlone,  ///< the only one
  kLast,
  kEach,
};

/// A row of model/faults.def.
struct FaultRow {
  std::string_view name;
  std::string_view check;
  FaultBegin begin = FaultBegin::kMidway;
  std::int64_t steps = 0;
  std::string_view what;
  std::string_view needs;
  FaultRanks ranks = FaultRanks::kAlone;

  /// Whether it takes several ranks to be one.
  constexpr bool is_between_ranks() const { return ranks != FaultRanks::kAlone; }
};

inline constexpr std::array kFaults = {
#define DDPSCOPE_FAULT(name, cpp_name, check, begin, steps, what, needs) \
  FaultRow{name, check, FaultBegin::begin, steps, what, needs},
#define DDPSCOPE_RANK_FAULT(name, cpp_name, check, ranks, steps, what, needs) \
  FaultRow{name, check, FaultBegin::kMidway, steps, what, needs, FaultRanks::ranks},
#include "model/faults.def"
#undef DDPSCOPE_FAULT
#undef DDPSCOPE_RANK_FAULT
};

/// Null if there is none of this name.
constexpr const FaultRow* find_fault(std::string_view name) {
  const auto* const found = std::ranges::find(kFaults, name, &FaultRow::name);
  return found == kFaults.end() ? nullptr : found;
}

}  // namespace ddpscope
