#pragma once

/// The stable keys of facts; docs/report-format.md says what each means.
namespace ddpscope::fact {

inline constexpr char kAccumulationsCount[] = "accumulations_count";
inline constexpr char kCause[] = "cause";
inline constexpr char kConsumerOps[] = "consumer_ops";
inline constexpr char kElements[] = "elements";
inline constexpr char kId[] = "id";
inline constexpr char kLargestShapes[] = "largest_shapes";
inline constexpr char kMembersCount[] = "members_count";
inline constexpr char kModuleType[] = "module_type";
inline constexpr char kOptimizer[] = "optimizer";
inline constexpr char kOptimizers[] = "optimizers";
inline constexpr char kOptimizersCount[] = "optimizers_count";
inline constexpr char kParameters[] = "parameters";
inline constexpr char kParametersCount[] = "parameters_count";
inline constexpr char kPathEndOp[] = "path_end_op";
inline constexpr char kPaths[] = "paths";
inline constexpr char kPeriod[] = "period";
inline constexpr char kReachedElements[] = "reached_elements";
inline constexpr char kReason[] = "reason";
inline constexpr char kRegisteredCount[] = "registered_count";
inline constexpr char kShareRatio[] = "share_ratio";
inline constexpr char kShares[] = "shares";
inline constexpr char kSinceStep[] = "since_step";
inline constexpr char kTensorsCount[] = "tensors_count";
inline constexpr char kTimesListedCount[] = "times_listed_count";
inline constexpr char kTrainableCount[] = "trainable_count";
inline constexpr char kWhere[] = "where";
inline constexpr char kWindowSteps[] = "window_steps";
inline constexpr char kWrongDevice[] = "wrong_device";

}  // namespace ddpscope::fact
