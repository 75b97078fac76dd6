#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "exchange/reduced_names.h"
#include "exchange/reduction_fit.h"
#include "model/rank_compare_event.h"

namespace ddpscope::reductions {

/// Of one parameter, all ranks together.
struct Parameter {
  std::size_t ranks = 0;
  std::uint64_t fingerprint = 0;
  bool differs = false;
  std::map<std::size_t, std::uint64_t> of_parts =
      {};  ///< the fingerprint of the first of its ranks
  bool differs_in_part = false;
  bool is_as_it_arrived = true;  ///< on each rank
  bool grew_after = false;       ///< a gradient arrived at what was averaged, on some rank
  bool was_mixed = false;        ///< on some rank it is no multiple of what arrived there
  std::int64_t kept_on = 0;      ///< number of ranks on which it is
  std::int64_t kept_by = -1;     ///< the last of these
  Sums arrived = {};             ///< on the first rank
  bool arrived_alike = true;     ///< and so on all
  bool is_finite = true;
  bool is_summed = true;    ///< what arrived is known, and nothing but sums and factors changed it
  bool is_weighed = false;  ///< by another factor on each rank
  bool is_of_own_count = false;    ///< a loss was divided by it, and others may weigh by it
  double weight = 1;               ///< of the first rank
  Sums unweighed = {};             ///< what that steps with, without clip and weight
  bool differs_unweighed = false;  ///< so that factors are not all that the ranks differ in
  bool was_cleared = false;
  std::size_t brought = 0;  ///< ranks on which it is not zero
  bool is_owned = false;    ///< optimizers of some ranks alone have it
  Arrived last;             ///< after it was cleared for the last time
  Arrived total;            ///< in the whole step
  Sums after = {};          ///< of the sum over ranks
  Sums stepped = {};        ///< likewise, with the clip
  double stepped_dots = 0;  ///< sum over ranks of the square of that sketch
};

struct Step {
  std::map<ReducedPlace, Parameter> parameters;
  std::int64_t calls = 0;
  RankList silent;                          ///< without collectives
  std::map<std::string, RankList> factors;  ///< known ones, of all gradients of a rank
  std::size_t reduce_last = 0;  ///< ranks whose collectives ran after their last backward began
  std::int64_t backwards = 0;
  std::map<std::string, RankList> backwards_on;
  double least_rows = std::numeric_limits<double>::infinity();  ///< of the batch of one rank
  double most_rows = 0;
  double loss_scale = 0;           ///< the last that is known, of any rank
  bool scale_is_known = false;     ///< in this very step
  double loss_shares = 0;          ///< the sum of those of all ranks
  std::size_t shares = 0;          ///< ranks that have one below 1
  bool divides_loss = false;       ///< some rank did, by the number of ranks and of backwards
  bool divides_by_period = false;  ///< likewise, by the number of backwards alone
  bool second_order = false;  ///< some rank's last backward was autograd::grad() with create_graph
  bool of_gradients = true;   ///< some call may have been given a gradient itself
  bool is_parted = false;     ///< every rank brought all gradients, and some ranks step each
};
using Steps = std::map<std::int64_t, Step>;

/// Compares what arrived in one step with what its optimizers were given.
class StepComparison {
 public:
  StepComparison(std::int64_t number, const Step& step, std::size_t ranks, bool complete);

  /// Of one model. `before`: steps right before this one, as far as they are known.
  ReductionStep run(std::uint32_t model, std::span<const Step* const> before);

  const std::vector<ReducedPlace>& arrived() const { return arrived_; }
  ReducedPlace differing() const { return differing_; }
  /// All of those.
  const std::vector<ReducedPlace>& parted() const { return parted_; }
  ReducedPlace undivided() const { return undivided_; }
  ReducedPlace lost() const { return lost_; }
  ReducedPlace of_owner() const { return of_owner_; }
  ReducedPlace residual() const { return residual_; }
  /// The ratio is that to the loss before it was scaled up.
  bool is_unscaled() const { return is_unscaled_; }

 private:
  void find_ratio();
  void find_divisor();
  void add_differing(const ReducedPlace& place, const Parameter& parameter);
  void add_averaged(const Parameter& parameter, bool is_linear);
  bool is_lost(const Parameter& parameter) const;
  void add_to_sum(const ReducedPlace& place, const Parameter& parameter,
                  std::span<const Step* const> before);
  bool is_of(const Step& before, const ReducedPlace& place, const Parameter& parameter,
             double limit) const;

  const Step& step_;
  std::size_t ranks_;
  bool complete_;
  bool is_earlier_ = false;
  bool is_unscaled_ = false;
  ReductionStep result_;
  double least_ = std::numeric_limits<double>::infinity();  ///< ratio of one parameter
  double most_ = -least_;
  bool are_sums_or_means_ = true;
  std::int64_t brought_by_all_ = 0;  ///< parameters whose gradient is zero on no rank
  ReducedPlace undivided_;
  ReducedPlace lost_;
  ReducedPlace of_owner_;
  std::vector<ReducedPlace> arrived_;
  ReducedPlace differing_;
  std::vector<ReducedPlace> parted_;
  bool differ_by_factors_ = true;
  bool differs_untouched_ = false;  ///< that one is as it arrived
  ReducedPlace residual_;
};

}  // namespace ddpscope::reductions
