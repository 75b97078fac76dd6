#include "exchange/reduction_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "exchange/batch_sizes.h"
#include "exchange/reduced_names.h"
#include "exchange/reduction_fit.h"
#include "exchange/reduction_record.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxSteps = 4096;
constexpr double kNotLinear = 1e-2;
constexpr double kSameFactor = 0.02;  // of all parameters
constexpr double kSameNumber = 1e-6;
constexpr double kSameValues = 1e-5;

/// Of one parameter, all ranks together.
struct Parameter {
  std::size_t ranks = 0;
  std::uint64_t fingerprint = 0;
  bool differs = false;
  std::map<std::size_t, std::uint64_t> of_parts =
      {};  ///< the fingerprint of the first of its ranks
  bool differs_in_part = false;
  bool is_as_it_arrived = true;  ///< on each rank
  bool is_finite = true;
  bool is_summed = true;    ///< what arrived is known, and nothing but sums and factors changed it
  bool is_weighed = false;  ///< by another factor on each rank
  double weight = 1;        ///< of the first rank
  bool was_cleared = false;
  std::size_t brought = 0;  ///< ranks on which it is not zero
  Arrived last;             ///< after it was cleared for the last time
  Arrived total;            ///< in the whole step
  Sums after = {};          ///< of the sum over ranks
  Sums stepped = {};        ///< likewise, with the clip
  double stepped_dots = 0;  ///< sum over ranks of the square of that sketch
};

struct Step {
  std::map<ReducedPlace, Parameter> parameters;
  std::int64_t calls = 0;
  std::size_t reduce_last = 0;  ///< ranks whose collectives ran after their last backward began
  std::int64_t backwards = 0;
  bool divides_loss = false;  ///< some rank did, by the number of ranks and of backwards
};
using Steps = std::map<std::int64_t, Step>;

bool is_near(double value, double target, double share = kSameNumber) {
  return std::abs(value - target) <= share * std::abs(target);
}

/// But for a factor that the program multiplied all with.
bool is_as_it_arrived(const ToldReduction& told, double factor) {
  if (told.before.sums == told.after.sums) return true;
  Sums left = told.before.sums;
  add(left, told.after.sums, -1 / factor);
  const double before = dot(told.before.sums, told.before.sums);
  return dot(left, left) <= kSameValues * kSameValues * before;
}

void add_to_part(Parameter& parameter, std::uint64_t fingerprint, std::optional<std::size_t> part) {
  if (!part.has_value()) return;
  const auto [first, is_new] = parameter.of_parts.try_emplace(*part, fingerprint);
  parameter.differs_in_part |= first->second != fingerprint;
}

void add_rank(Parameter& parameter, const ToldReduction& told, double clip_factor, double weight) {
  if (parameter.ranks++ == 0) {
    parameter.fingerprint = told.fingerprint;
    parameter.weight = weight;
  }
  parameter.differs |= parameter.fingerprint != told.fingerprint;
  const double seen = weight == kUnknownWeight ? 1 : weight;
  parameter.is_as_it_arrived &= is_as_it_arrived(told, clip_factor * seen);
  Sums after = {};
  add(after, told.after.sums, 1 / clip_factor);
  const double arrived = dot(told.before.sums, told.before.sums) + told.before.squares;
  parameter.is_finite &= std::isfinite(dot(after, after) + told.after.squares);
  parameter.is_summed &= std::isfinite(arrived) && told.before.squares >= 0;
  const bool are_known = weight != kUnknownWeight && parameter.weight != kUnknownWeight;
  parameter.is_weighed |= are_known && !is_near(weight, parameter.weight);
  parameter.was_cleared |= told.total.has_value();
  parameter.brought += told.before.squares > 0;
  parameter.last.add_rank(told.before);
  parameter.total.add_rank(told.total.value_or(told.before));
  add(parameter.after, after);
  add(parameter.stepped, told.after.sums);
  parameter.stepped_dots += dot(told.after.sums, told.after.sums);
}

std::optional<std::size_t> part_of(std::int64_t rank, const Cohort& cohort) {
  for (std::size_t i = 0; i < cohort.parts.size(); ++i) {
    if (std::ranges::binary_search(cohort.parts[i], rank)) return i;
  }
  return std::nullopt;
}

void read_ring(const RingReader& ring, const Cohort& cohort, Steps& steps) {
  const auto part = part_of(ring.head().rank, cohort);
  std::set<std::int64_t> reduce_last;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind != BlobKind::kReductions) continue;
    const auto told = decode_reductions(blob.bytes);
    if (!told || (steps.size() >= kMaxSteps && !steps.contains(blob.step))) continue;
    const bool is_clipped = told->clip_factor > 0 && told->clip_factor < 1;
    if (told->calls > 0 && reduce_last.insert(blob.step).second) ++steps[blob.step].reduce_last;
    for (const ToldReduction& one : told->gradients) {
      Parameter& parameter = steps[blob.step].parameters[{blob.number, one.parameter}];
      add_rank(parameter, one, is_clipped ? told->clip_factor : 1, told->weight);
      add_to_part(parameter, one.fingerprint, part);
    }
  }
}

// By their number alone where it cannot be that of backwards. A sum is divided by the rows, or the
// elements, of all batches.
bool divides_by_ranks(double loss_scale, const BatchSize& batch, double ranks, double backwards) {
  const auto is_divided_by = [loss_scale](double count) { return is_near(loss_scale * count, 1); };
  const double all = ranks * backwards;
  return is_divided_by(all) || (is_divided_by(ranks) && backwards != ranks) ||
         is_divided_by(all * batch.rows) || is_divided_by(all * batch.elements);
}

// What happened in the step, by the digests of the ranks; the most of them all.
void add_counts(const RingReader& ring, double ranks, Steps& steps) {
  std::optional<StepDigest> last;
  double loss_scale = 0;  // known of surveyed steps
  const BatchSizes batches(ring);
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest) continue;
    if (digest->loss_scale > 0) loss_scale = digest->loss_scale;
    const auto found = steps.find(digest->step);
    const bool follows = last && digest->step == last->step + 1;
    if (found != steps.end() && (follows || digest->step == 1)) {
      const StepDigest before = follows ? *last : StepDigest{};
      Step& step = found->second;
      step.calls = std::max<std::int64_t>(step.calls, digest->call_count - before.call_count);
      const std::int64_t backwards = digest->backwards - before.backwards;
      step.backwards = std::max(step.backwards, backwards);
      step.divides_loss |= divides_by_ranks(loss_scale, batches.at(digest->step), ranks,
                                            static_cast<double>(backwards));
    }
    last = digest;
  }
}

std::set<std::uint32_t> models_in(const Steps& steps) {
  std::set<std::uint32_t> models;
  for (const auto& [number, step] : steps) {
    for (const auto& [place, parameter] : step.parameters) models.insert(place.model);
  }
  return models;
}

/// How far the ranks are from their mean.
double spread_of(const Parameter& parameter) {
  const auto ranks = static_cast<double>(parameter.ranks);
  const double of_mean = dot(parameter.stepped, parameter.stepped) / (ranks * ranks);
  const double variance = parameter.stepped_dots / ranks - of_mean;
  return of_mean > 0 ? std::sqrt(std::max(variance, 0.0) / of_mean) : 0;
}

class StepComparison {
 public:
  StepComparison(std::int64_t number, const Step& step, std::size_t ranks, bool complete)
      : step_(step), ranks_(ranks), complete_(complete) {
    result_.step = number;
    result_.calls = step.calls;
    result_.backwards = step.backwards;
    result_.reduces_last = step.reduce_last >= ranks;
    // What is stepped with came out of a collective that was issued before the last backward.
    is_earlier_ = step.calls > 0 && step.reduce_last == 0;
  }

  ReductionStep run(std::uint32_t model) {
    for (const auto& [place, parameter] : step_.parameters) {
      if (place.model != model || parameter.ranks != ranks_ || !parameter.is_finite) continue;
      if (parameter.is_summed && parameter.last.norms < kNoNorm) continue;
      ++result_.sampled;
      if (parameter.is_as_it_arrived) arrived_.push_back(place);
      if (parameter.differs) add_differing(place, parameter);
      if (parameter.is_weighed) {
        ++result_.not_linear;
      } else if (complete_ && parameter.is_summed && !is_earlier_) {
        add_to_sum(place, parameter);
      }
    }
    result_.as_they_arrived = std::ssize(arrived_);
    find_ratio();
    return std::move(result_);
  }

  const std::vector<ReducedPlace>& arrived() const { return arrived_; }
  ReducedPlace differing() const { return differing_; }
  ReducedPlace undivided() const { return undivided_; }
  ReducedPlace residual() const { return residual_; }

 private:
  void find_ratio() {
    if (least_ > most_) return;
    if (most_ - least_ > kSameFactor * std::abs(most_)) {
      if (!are_sums_or_means_ || step_.divides_loss) result_.undivided = 0;
      return;
    }
    result_.undivided = 0;
    result_.ratio = (least_ + most_) / 2;
    const auto ranks = static_cast<double>(ranks_);
    if (step_.divides_loss && is_near(*result_.ratio, ranks, kSameFactor)) result_.ratio = 1;
  }

  void add_differing(const ReducedPlace& place, const Parameter& parameter) {
    const bool by_part = parameter.of_parts.size() > 1 && !parameter.differs_in_part;
    result_.differs_by_part = by_part && (result_.differing == 0 || result_.differs_by_part);
    if (result_.differing++ == 0) differing_ = place;
    result_.largest_difference = std::max(result_.largest_difference, spread_of(parameter));
  }

  // Of what is a multiple of the sum, nothing is left. The multiple may be another one for each
  // parameter, as where layers are clipped by themselves. A program that clears gradients between
  // its backwards either keeps what it had elsewhere, and adds it, or drops it.
  void add_to_sum(const ReducedPlace& place, const Parameter& parameter) {
    auto best = fit(parameter.last, parameter.after, ranks_);
    const auto whole =
        parameter.was_cleared ? fit(parameter.total, parameter.after, ranks_) : std::nullopt;
    if (whole.has_value() && (!best.has_value() || whole->noise < best->noise)) best = whole;
    if (!best.has_value()) return;
    if (!best->cancels) {
      least_ = std::min(least_, best->ratio);
      most_ = std::max(most_, best->ratio);
      const bool is_sum = is_near(best->ratio, static_cast<double>(ranks_), kSameFactor);
      are_sums_or_means_ &=
          is_near(best->ratio, 1, kSameFactor) || (is_sum && parameter.brought == ranks_);
      if (is_sum && result_.undivided++ == 0) undivided_ = place;
    }
    const double after =
        std::sqrt(dot(parameter.after, parameter.after)) / static_cast<double>(ranks_);
    result_.not_linear += best->residual > kNotLinear * after;
    if (best->noise <= result_.noise) return;
    result_.noise = best->noise;
    result_.residual = after > 0 ? best->residual / after : 0;
    residual_ = place;
  }

  const Step& step_;
  std::size_t ranks_;
  bool complete_;
  bool is_earlier_ = false;
  ReductionStep result_;
  double least_ = std::numeric_limits<double>::infinity();  // ratio of one parameter
  double most_ = -least_;
  bool are_sums_or_means_ = true;
  ReducedPlace undivided_;
  std::vector<ReducedPlace> arrived_;
  ReducedPlace differing_;
  ReducedPlace residual_;
};

}  // namespace

void compare_reductions(const RingList& rings, bool complete, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size()) return;
  // The same place may be another parameter.
  const bool differ = std::ranges::any_of(cohort.digests, [](const DigestsDiffer& difference) {
    return difference.field == DigestField::kStructure;
  });
  if (differ) return;
  Steps steps;
  for (const RingReader* ring : rings) {
    read_ring(*ring, cohort, steps);
    add_counts(*ring, static_cast<double>(rings.size()), steps);
  }
  ReducedNames names(*rings.front());
  // Two models may step in turn: what lasts is told by the steps of one.
  for (const std::uint32_t model : models_in(steps)) {
    for (const auto& [number, step] : steps) {
      StepComparison comparison(number, step, rings.size(), complete);
      ReductionStep result = comparison.run(model);
      if (result.sampled == 0) continue;
      if (result.differing > 0) result.first_differing = names.at(comparison.differing(), number);
      if (result.as_they_arrived == result.sampled && result.calls > 0) {
        result.may_be_copies = names.may_be_copied(comparison.arrived(), number);
        result.of_few_numbers = names.are_of_few_numbers(model, number);
      }
      if (result.undivided > 0) result.first_undivided = names.at(comparison.undivided(), number);
      if (result.noise > 0) result.worst = names.at(comparison.residual(), number);
      cohort.reductions.push_back(std::move(result));
    }
  }
}

}  // namespace ddpscope
