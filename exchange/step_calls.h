#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "exchange/rank_ring.h"
#include "exchange/unnamed_calls.h"

namespace ddpscope {

/// The collectives of one rank, by step, but broadcasts and those of gradients themselves: what may
/// be copies of gradients.
class StepCalls {
 public:
  /// Of these `groups` alone, or of all. What `reduce` tells is of groups of so many ranks or more.
  explicit StepCalls(const RingReader& ring, const std::set<std::uint64_t>* groups = nullptr,
                     std::size_t ranks = 0);
  /// Whether calls of that step had the sizes of these gradients, one by one, or of `all` gradients
  /// together. True where calls of the step are no longer in the ring.
  bool may_hold(std::int64_t step, const std::vector<std::uint64_t>& gradients,
                std::uint64_t all) const;
  /// Whether no call of that step was of a gradient, and all of them together had fewer elements;
  /// broadcasts in the first step, which make replicas equal, left out, and gathers in a forward of
  /// what has the sizes of no parameters, as features.
  bool have_fewer(std::int64_t step, std::uint64_t elements) const;
  /// Whether that holds of each step.
  bool always_have_fewer(std::uint64_t elements) const;
  /// The operation by which most elements of that step were reduced; kNone where none reduced so
  /// many.
  ReduceKind reduce(std::int64_t step, std::uint64_t elements) const;
  /// Whether so many were reduced or gathered to one rank alone, and not broadcast as well.
  bool go_to_one_rank(std::int64_t step, std::uint64_t elements) const;
  /// Whether each rank was given so many that were reduced over all ranks, or gathered of them.
  bool go_to_all(std::int64_t step, std::uint64_t elements) const;
  /// Whether calls of so many were given registered tensors themselves, and others fewer.
  bool are_of_registered(std::int64_t step, std::uint64_t elements) const;
  /// The most ranks of a group that was given gradients in that step; 0 where there is none.
  std::int64_t most_ranks(std::int64_t step) const;
  /// Whether some call of that step was given a gradient itself; true where that is not known.
  bool may_be_of_gradients(std::int64_t step) const { return !have_fewer(step, kOfGradient); }
  /// How often in that step each gradient that some call was given by itself was summed up; the
  /// fewest times.
  std::int64_t times_reduced(std::int64_t step) const;
  /// UnnamedCalls::may_bring_activations(); true where calls of the step are no longer in the ring.
  bool may_bring_activations(std::int64_t step, std::uint64_t weights) const;
  /// Whether its forward sent each rank values of its own, and so did its backward: tokens of
  /// experts or rows of tables that ranks share out. True where calls of the step are no longer in
  /// the ring.
  bool route_activations(std::int64_t step) const;
  /// Whether calls of that step are no longer in the ring.
  bool are_overwritten(std::int64_t step) const { return step < known_from_; }

 private:
  static constexpr std::uint64_t kOfGradient = UINT64_MAX;
  void add_way(const CallRecord& call, std::size_t ranks);
  void add_sum(const CallRecord& gradient);
  bool brings_outputs(const CallRecord& call, bool is_floating) const;

  std::int64_t known_from_ = 0;
  std::set<std::uint64_t> sizes_;  ///< of the parameters, one by one and together
  std::map<std::int64_t, std::uint64_t> sums_;
  std::map<std::int64_t, std::vector<std::uint64_t>> elements_;
  std::map<std::int64_t, std::map<ReduceKind, std::uint64_t>> reduced_;
  std::map<std::int64_t, std::uint64_t> to_one_rank_;
  std::map<std::int64_t, std::uint64_t> to_all_;
  std::map<std::int64_t, std::uint64_t> broadcast_;   ///< but those that make replicas equal
  std::map<std::int64_t, std::uint64_t> registered_;  ///< elements of those tensors
  std::map<std::int64_t, std::uint64_t> others_;
  std::map<std::int64_t, std::int64_t> most_ranks_;
  std::set<std::int64_t> routed_forward_;  ///< steps with such calls
  std::set<std::int64_t> routed_backward_;
  UnnamedCalls unnamed_;
  std::map<std::int64_t, std::map<NameId, std::int64_t>> summed_;  ///< calls by their gradient
};

/// Whether the rank exchanged gradients or weights, as far as sizes tell: some step's collectives
/// have a tenth of the elements of its parameters, or how many these are is not known.
/// Of calls in these `groups` alone, or of all.
bool exchanges_tensors(const RingReader& ring, const std::set<std::uint64_t>* groups = nullptr);

/// Whether broadcasts before the first step had at least as many elements as its parameters.
bool broadcasts_at_start(const RingReader& ring);

}  // namespace ddpscope
