#pragma once

// Part of model/fact_keys.h: of what ranks are compared by.
namespace ddpscope::fact {

inline constexpr char kBatchElementsRatio[] = "batch_elements_ratio";
inline constexpr char kBatchFingerprint[] = "batch_fingerprint";
inline constexpr char kBatchShape[] = "batch_shape";
inline constexpr char kCallIndex[] = "call_index";
inline constexpr char kCallsPerRank[] = "calls_per_rank";
inline constexpr char kCollectivesSinceStepCount[] = "collectives_since_step_count";
inline constexpr char kComparedBatchesCount[] = "compared_batches_count";
inline constexpr char kCulpritRank[] = "culprit_rank";
inline constexpr char kEpochLengthBatches[] = "epoch_length_batches";
inline constexpr char kEpochs[] = "epochs";
inline constexpr char kEqualRanks[] = "equal_ranks";
inline constexpr char kEstimatedNorm[] = "estimated_difference_norm";
inline constexpr char kEstimatedIn[] = "estimated_in";
inline constexpr char kEstimatedRelative[] = "estimated_relative_difference";
inline constexpr char kEvaluatedRanks[] = "evaluated_ranks";
inline constexpr char kExpectedRatio[] = "expected_ratio";
inline constexpr char kHostRepeatCount[] = "host_repeat_count";
inline constexpr char kLargestRelativeDifference[] = "largest_relative_difference";
inline constexpr char kLateRatio[] = "late_ratio";
inline constexpr char kLayer[] = "layer";
inline constexpr char kLayerPerSide[] = "layer_per_side";
inline constexpr char kLocalRowsCount[] = "local_rows_count";
inline constexpr char kLostMs[] = "lost_ms";
inline constexpr char kMeasuredRatio[] = "measured_ratio";
inline constexpr char kModePerRank[] = "mode_per_rank";
inline constexpr char kNormsPerRank[] = "norms_per_rank";
inline constexpr char kOriginRanks[] = "origin_ranks";
inline constexpr char kRankPatterns[] = "rank_patterns";
inline constexpr char kReduction[] = "reduction";
inline constexpr char kReplica[] = "replica";
inline constexpr char kReplicasCount[] = "replicas_count";
inline constexpr char kResidualRatio[] = "residual_ratio";
inline constexpr char kRowsCount[] = "rows_count";
inline constexpr char kSampledCount[] = "sampled_count";
inline constexpr char kSeed[] = "seed";
inline constexpr char kSyncedMicroBatches[] = "synced_micro_batches";
inline constexpr char kTrend[] = "trend";
inline constexpr char kUnreadReplicas[] = "unread_replicas";
inline constexpr char kValidPerRank[] = "valid_per_rank";
inline constexpr char kWeightRatio[] = "weight_ratio";

}  // namespace ddpscope::fact
