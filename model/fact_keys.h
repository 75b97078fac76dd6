#pragma once

/// The stable keys of facts; docs/report-format.md says what each means.
namespace ddpscope::fact {

inline constexpr char kAccumulationsCount[] = "accumulations_count";
inline constexpr char kBlindIds[] = "blind_ids";
inline constexpr char kBufferRequiresGrad[] = "buffer_requires_grad";
inline constexpr char kBuiltVersion[] = "built_version";
inline constexpr char kCause[] = "cause";
inline constexpr char kChangedCount[] = "changed_count";
inline constexpr char kConsumerOps[] = "consumer_ops";
inline constexpr char kDevice[] = "device";
inline constexpr char kDeviceBefore[] = "device_before";
inline constexpr char kDeviceNow[] = "device_now";
inline constexpr char kDevices[] = "devices";
inline constexpr char kDtype[] = "dtype";
inline constexpr char kDtypes[] = "dtypes";
inline constexpr char kElements[] = "elements";
inline constexpr char kException[] = "exception";
inline constexpr char kFallback[] = "fallback";
inline constexpr char kFrozenParametersCount[] = "frozen_parameters_count";
inline constexpr char kHolders[] = "holders";
inline constexpr char kId[] = "id";
inline constexpr char kLargestShapes[] = "largest_shapes";
inline constexpr char kMembersCount[] = "members_count";
inline constexpr char kModuleDevice[] = "module_device";
inline constexpr char kModuleType[] = "module_type";
inline constexpr char kModules[] = "modules";
inline constexpr char kModulesCount[] = "modules_count";
inline constexpr char kMomentum[] = "momentum";
inline constexpr char kNewShape[] = "new_shape";
inline constexpr char kOccupiedCount[] = "occupied_count";
inline constexpr char kOldShape[] = "old_shape";
inline constexpr char kOptimizer[] = "optimizer";
inline constexpr char kOptimizers[] = "optimizers";
inline constexpr char kOptimizersCount[] = "optimizers_count";
inline constexpr char kOwners[] = "owners";
inline constexpr char kParameters[] = "parameters";
inline constexpr char kParametersCount[] = "parameters_count";
inline constexpr char kPath[] = "path";
inline constexpr char kPathEndOp[] = "path_end_op";
inline constexpr char kPaths[] = "paths";
inline constexpr char kPeriod[] = "period";
inline constexpr char kPoint[] = "point";
inline constexpr char kProducers[] = "producers";
inline constexpr char kReachedElements[] = "reached_elements";
inline constexpr char kReason[] = "reason";
inline constexpr char kRegisteredCount[] = "registered_count";
inline constexpr char kReshapedPaths[] = "reshaped_paths";
inline constexpr char kRunningVersion[] = "running_version";
inline constexpr char kSavedBytes[] = "saved_bytes";
inline constexpr char kShape[] = "shape";
inline constexpr char kShapes[] = "shapes";
inline constexpr char kShareRatio[] = "share_ratio";
inline constexpr char kShares[] = "shares";
inline constexpr char kSinceStep[] = "since_step";
inline constexpr char kStepsInModeCount[] = "steps_in_mode_count";
inline constexpr char kStrides[] = "strides";
inline constexpr char kTensorsCount[] = "tensors_count";
inline constexpr char kThread[] = "thread";
inline constexpr char kTimesListedCount[] = "times_listed_count";
inline constexpr char kTotalCount[] = "total_count";
inline constexpr char kTrainableCount[] = "trainable_count";
inline constexpr char kTwinPaths[] = "twin_paths";
inline constexpr char kUnregistered[] = "unregistered";
inline constexpr char kUpdateRatio[] = "update_ratio";
inline constexpr char kUsedPath[] = "used_path";
inline constexpr char kWeightDecay[] = "weight_decay";
inline constexpr char kWhere[] = "where";
inline constexpr char kWindowSteps[] = "window_steps";
inline constexpr char kWrittenEachStep[] = "written_each_step";
inline constexpr char kWrongDevice[] = "wrong_device";

}  // namespace ddpscope::fact
