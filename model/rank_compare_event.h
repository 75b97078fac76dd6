#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/collective_event.h"
#include "model/finding.h"
#include "model/rank_ending.h"
#include "model/rank_training.h"
#include "model/tensors_differ.h"

namespace ddpscope {

/// A call as a rank's ring has it, with its names.
struct ComparedCall {
  CallRecord record;
  std::string owner;
  std::string module;
  std::string dtype;
  Site site;  ///< without frames where no stack was taken
};

struct CallSide {
  ComparedCall call;  ///< of the first of the ranks
  RankList ranks;
  bool as_before = false;  ///< it followed the call before it the last time, too
};

/// The first call of a group that its ranks issued differently. Of calls with legal uneven sizes
/// the elements are not compared, and of owners those that are known.
struct CallsDiffer {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;
  std::int64_t step = 0;            ///< the least of all sides
  std::vector<std::string> fields;  ///< kind, reduce, list, elements, dtype, root or owner
  std::vector<CallSide> sides;      ///< minority first
  std::int64_t missing = 0;         ///< members of the group whose call is not known
  /// Where a layer of synchronised batch norm is concerned: how many calls of such layers each
  /// rank still has of that step in this group, as text.
  std::vector<RankSide> norm_calls = {};
};

/// Where one rank stands in one group.
struct RankStand {
  std::int64_t rank = 0;
  std::uint64_t last_seq = 0;  ///< issued; 0: none
  bool is_open = false;        ///< it has not returned from that call
  ComparedCall last;
  std::int64_t step = 0;  ///< of its heartbeat, as are phase and module
  Phase phase = Phase::kInit;
  std::string module;
  bool ended = false;             ///< it left its loop
  std::int64_t beat_unix_ns = 0;  ///< 0: there was none
  std::uint64_t progress = 0;
  // Of ranks that run, else not known (-1):
  std::int64_t still_ms = -1;   ///< without progress
  std::int64_t silent_ms = -1;  ///< without a heartbeat
};

/// A group in which some ranks wait in a call that others have not issued, or all that left a ring
/// wait in one.
struct Frontier {
  std::uint64_t group = 0;
  std::uint64_t seq = 0;            ///< of the call that the waiting ranks are in
  ComparedCall call;                ///< that one
  RankList waiting;                 ///< inside a call with at least this number
  RankList behind;                  ///< never issued it
  std::vector<RankStand> stands;    ///< of all members with a ring, by rank
  std::int64_t waited_ms = 0;       ///< of the rank that waits longest
  std::int64_t since_unix_ns = 0;   ///< when it began to wait
  std::int64_t median_wait_ms = 0;  ///< of the earlier calls of that rank
  std::int64_t unknown = 0;         ///< members without a ring
  /// As those of CallsDiffer.
  std::vector<RankSide> norm_calls = {};
};

enum class DigestField : std::uint8_t {
  kStructure,
  kGradients,
  kOptimizers,
  kParameters,
  kBuffers,
  kLearningRate,
  kWeightDecay,
  kMomentum,
  kLossScale,
  kOptimizerSteps,
  kSkippedSteps,
  kGroups,
  kMembers,
  kForwards,
  kBackwards,
  kCallCount,
  kClipFactor,
  kState,
};

/// A field of the steps' digests of which ranks of one cohort say different things. Steps of which
/// not all of its ranks left a digest are not compared, nor is a field of which fewer than two
/// ranks say anything (a fingerprint of 0 does not); a rank that says nothing is on no side.
struct DigestsDiffer {
  DigestField field = DigestField::kStructure;
  std::int64_t step = 0;          ///< the first of `consecutive`
  std::int64_t first_step = -1;   ///< the first one in which they differ, if only in that
  std::int64_t consecutive = 0;   ///< compared steps in a row: the first two or more, else one
  std::int64_t last_step = 0;     ///< the last one in which they differ
  std::int64_t equal_until = -1;  ///< last compared step before `step` in which they do not
  std::int64_t differing = 0;     ///< number of compared steps from `step` on in which they differ
  std::int64_t compared = 0;      ///< number of compared steps from `step` on
  std::vector<RankSide> sides;    ///< at `step`, minority first; values as text
  bool by_calls = false;          ///< the same collectives fall into other steps
  bool of_new_optimizer = false;  ///< of one that began to step at `step`
};

/// Ranks that average after other micro-batches, some of them not after the last one of a step.
struct SyncPatternsDiffer {
  std::int64_t step = 0;    ///< the first of two or more in a row
  std::int64_t steps = 0;   ///< in which they do so
  std::int64_t period = 0;  ///< backwards of that step
  std::vector<RankSide>
      sides;  ///< numbers of the averaged backwards, from 1: `1 3`; minority first
};

/// Ranks whose epochs, begun in the same step, have different numbers of batches.
struct EpochsDiffer {
  std::int64_t step = 0;
  std::int64_t least = 0;       ///< of the numbers of batches
  std::vector<RankSide> sides;  ///< of the numbers, minority first
};

struct ReducedParameter {
  std::string model;
  std::string path;
  std::string dtype;
};

/// The gradients of one step before and after the ranks reduced them, of those parameters that all
/// ranks read and stepped with. A gradient that is zero or not finite is none of them.
struct ReductionStep {
  std::int64_t step = 0;
  std::int64_t sampled = 0;
  std::int64_t calls = 0;                    ///< collectives in this step; the most of one rank
  RankList silent;                           ///< those without any, beside others
  std::int64_t backwards = 0;                ///< the most of one rank
  std::int64_t times_reduced = 0;            ///< each gradient that calls name; the fewest times
  bool is_counted = false;                   ///< it is known of each rank how many it made
  std::vector<RankSide> backwards_per_rank;  ///< of gradients that differ, where these do as well
  bool reduces_last = false;         ///< on all ranks collectives ran after the last backward began
  std::int64_t differing = 0;        ///< not bit-equal on all ranks when their optimizer stepped
  bool differs_by_part = false;      ///< those are bit-equal on all ranks of each part
  std::int64_t as_they_arrived = 0;  ///< on every rank, up to the factors that are known
  std::int64_t mixed = 0;            ///< differing ones that are no multiple of it on some rank
  std::int64_t grew_after = 0;       ///< of those as they arrived, to an earlier average
  bool may_be_copies = true;         ///< collectives had the sizes of these gradients and were not
                                     ///< of gradients themselves
  bool of_few_numbers = false;       ///< what they are of cannot be gradients
  ReduceKind reduce = ReduceKind::kNone;  ///< of most elements, if these are many, over all ranks
  bool with_itself = false;               ///< the calls were of groups of one rank each
  bool to_one_rank = false;               ///< many elements were reduced or gathered to one alone
  bool to_all = false;                    ///< likewise to each of them
  bool of_parameters = false;        ///< the calls were of registered tensors, not of gradients
  bool brings_activations = false;   ///< calls before its gradients were of what ranks computed
  bool routes_activations = false;   ///< all-to-alls of its forward and of its backward, of others
  bool shares_activations = false;   ///< likewise, and the ranks compared gave it to each other
  ReducedParameter first_differing;  ///< in registered order
  std::string differing_module;      ///< the deepest above those, where others do not differ
  std::vector<RankSide> factors;     ///< by which ranks multiplied them, where these differ
  double largest_difference = 0;     ///< norm of ranks less their mean, over that of the mean
  std::optional<double> ratio;       ///< to the mean of what arrived, clipping left out; 1 is right
  /// Of the sum of what arrived, where it is a number of nothing that is known; 0: none.
  std::int64_t divisor = 0;
  double weight = 0;                 ///< the factor that each rank was seen to multiply all with
  bool second_order = false;         ///< the last backward was autograd::grad() with create_graph
  bool divides_by_period = false;    ///< the loss, on some rank, by the number of backwards
  std::int64_t undivided = 0;        ///< sums over the ranks, where all others are the mean
  ReducedParameter first_undivided;  ///< in registered order
  std::int64_t lost = 0;             ///< 0 on all ranks, where others are not and each rank brought
                                     ///< more than that
  ReducedParameter first_lost;       ///< in registered order
  double residual = 0;               ///< of `worst`: norm of what is no multiple of the sum, over
                                     ///< the norm after
  double noise = 0;                  ///< the same over the norms before: rounding shows in it
  ReducedParameter worst;
  std::int64_t averaged = 0;    ///< arrived as another one on each rank, and all step with one mean
  std::int64_t combined = 0;    ///< likewise, and they step with what is no multiple of the sum
  std::int64_t not_linear = 0;  ///< of which more than 1 % is no multiple of the sum
  std::int64_t of_one_rank = 0;     ///< what all step with is what arrived on one of them alone
  std::int64_t that_rank = -1;      ///< the one
  std::int64_t of_owner = 0;        ///< stepped by one rank, with what arrived on that one alone
  ReducedParameter first_of_owner;  ///< in registered order
  std::int64_t of_step_before = 0;  ///< the mean of what arrived in that one, and not in this

  void forget_values() {
    ratio.reset();
    undivided = not_linear = 0;
    residual = noise = 0;
  }

  /// The ranks exchanged no gradients in it.
  bool is_alone() const { return calls == 0 || of_few_numbers; }
};

/// Only some ranks read parameters from an archive.
struct LoadedOnSome {
  std::int64_t step = 0;  ///< in progress then
  RankList ranks;         ///< those that did
};

/// Ranks that are compared with each other: all, or those that average with one another.
struct Cohort {
  RankList ranks;
  /// Disjoint parts of them that average over groups of their own as well; empty where there are
  /// none, or not for each rank.
  std::vector<RankList> parts;
  bool averages = false;        ///< a collective wrote gradients, or what they hold tells so
  bool equal_at_start = false;  ///< parameters were bit-equal before the first step
  /// Some step's collectives had a tenth of the elements of the parameters or more, but for
  /// broadcasts before the first step.
  bool exchanges_tensors = false;
  bool broadcasts_at_start = false;         ///< of as many elements as the parameters have, or more
  std::vector<std::int64_t> equal_steps;    ///< compared steps in which they were when it began
  std::vector<std::int64_t> unequal_steps;  ///< in which they were not
  /// Steps in which some of the parameters that had parted were equal again and others were not.
  std::vector<std::int64_t> partly_equal_steps;
  /// Of parameters that differ in each of these, at the first one, where there are several.
  std::optional<ValuesDiffer> never_averaged;
  /// Of those that the ranks on its last side train and never send to the others, which leave the
  /// steps to them and are sent the rest.
  std::optional<ValuesDiffer> never_sent;
  /// Steps in which parameters were equal again, and the sum of what the ranks had before.
  std::vector<std::int64_t> summed_steps;
  /// Steps in which they were equal again as `sender` broadcast its own, of ranks that train all.
  std::vector<std::int64_t> sent_steps;
  std::int64_t sender = -1;
  /// Steps before which weights were reduced and nothing of it came back; of each step that is
  /// known, gradients alone moved the parameters.
  std::vector<std::int64_t> dropped_steps;
  /// Steps of equal parameters of which each rank trains a part, by its own gradients alone.
  std::vector<std::int64_t> unreduced_parts;
  std::int64_t compared_steps = 0;
  std::int64_t median_step_ms = 0;
  std::vector<DigestsDiffer> digests;
  std::vector<ModelsDiffer> models;
  bool lists_differ = false;                  ///< of tensors of a model that several ranks have
  std::vector<GradientSetsDiffer> gradients;  ///< one at most
  std::vector<ValuesDiffer> values;           ///< one of parameters and one of buffers at most
  std::vector<RankCounts> counts;             ///< by rank
  std::vector<ReductionStep> reductions;      ///< by step
  std::vector<ReductionStep> owned;           ///< likewise, where some ranks step each
  std::vector<SyncPatternsDiffer> patterns;   ///< one at most
  std::vector<EpochsDiffer> epochs;           ///< one at most
  std::vector<SameRandom> same_random;        ///< one at most
  std::vector<SameBatches> same_batches;      ///< empty where the ranks read different data
  std::vector<UnreadShares> unread_shares;    ///< one at most
  std::vector<Straggler> stragglers;          ///< one at most
  std::vector<LossWeights> loss_weights;      ///< one at most
  std::vector<NonfiniteOrigin> nonfinite;     ///< one at most
  std::vector<LoadedOnSome> loads;            ///< by step
  TrainingDiffers operators;                  ///< from parameters to losses, of some ranks alone
  TrainingDiffers modes;                      ///< layers that some ranks have in eval mode
};

/// What the settings of the ranks say of `sync_batch_norm`, as far as their records tell.
struct NormSettings {
  RankList on;
  RankList off;
};

/// What the ranks of one run left to be compared.
struct RanksComparedEvent {
  std::int64_t world_size = 1;
  RankList with_ring;
  bool live = false;  ///< the ranks still run
  std::int64_t hang_after_ms = 120000;
  std::int64_t digests = 0;  ///< read, of all ranks
  bool has_models = true;    ///< some rank told of one
  std::int64_t calls = 0;
  std::vector<CallsDiffer> calls_differ;  ///< one per group at most
  std::vector<Frontier> frontiers;
  std::vector<RankStand> stands;  ///< of each rank, in the group of its last call
  std::vector<Cohort> cohorts;
  /// The ranks of several cohorts, its parts, that began as equal replicas and exchanged nothing
  /// since. Not known while they run.
  std::optional<Cohort> apart;
  RanksEndedEvent endings;
  NormSettings norm_settings;        ///< not known while they run
  std::vector<std::string> remarks;  ///< what could not be compared, and why
};

}  // namespace ddpscope
