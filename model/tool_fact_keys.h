#pragma once

// Part of model/fact_keys.h: of what tool-* checks tell of ddpscope itself.
namespace ddpscope::fact {

inline constexpr char kAffectedIds[] = "affected_ids";
inline constexpr char kAgeCount[] = "age_count";
inline constexpr char kBlindIds[] = "blind_ids";
inline constexpr char kBudgetRatio[] = "budget_ratio";
inline constexpr char kBuiltVersion[] = "built_version";
inline constexpr char kCapacityCount[] = "capacity_count";
inline constexpr char kCostRatio[] = "cost_ratio";
inline constexpr char kDroppedCount[] = "dropped_count";
inline constexpr char kFallback[] = "fallback";
inline constexpr char kLatencySteps[] = "latency_steps";
inline constexpr char kOccupiedCount[] = "occupied_count";
inline constexpr char kPoint[] = "point";
inline constexpr char kReason[] = "reason";
inline constexpr char kRing[] = "ring";
inline constexpr char kRunningVersion[] = "running_version";

}  // namespace ddpscope::fact
