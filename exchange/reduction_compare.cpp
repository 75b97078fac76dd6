#include "exchange/reduction_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "exchange/averaged_values.h"
#include "exchange/batch_sizes.h"
#include "exchange/reduced_names.h"
#include "exchange/reduction_record.h"
#include "exchange/step_comparison.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
using reductions::Parameter;
using reductions::Step;
using reductions::StepComparison;
using reductions::Steps;

constexpr std::size_t kMaxSteps = 4096;
constexpr double kSameNumber = 1e-6;
constexpr double kSameRatio = 0.02;
constexpr double kSameValues = 1e-5;
constexpr double kMixed = 1e-2;

bool is_near(double value, double target) {
  return std::abs(value - target) <= kSameNumber * std::abs(target);
}

/// But for a factor that the program multiplied all with.
bool is_as_it_arrived(const ToldReduction& told, double factor) {
  if (told.before.sums == told.after.sums) return true;
  Sums left = told.before.sums;
  add(left, told.after.sums, -1 / factor);
  const double before = dot(told.before.sums, told.before.sums);
  return dot(left, left) <= kSameValues * kSameValues * before;
}

/// More than a factor of any kind changed it.
bool is_mixed(const ToldReduction& told) {
  const double before = dot(told.before.sums, told.before.sums);
  if (before < kNoNorm * kNoNorm) return false;
  Sums left = told.after.sums;
  add(left, told.before.sums, -dot(told.after.sums, told.before.sums) / before);
  return dot(left, left) > kMixed * kMixed * dot(told.after.sums, told.after.sums);
}

void add_to_part(Parameter& parameter, std::uint64_t fingerprint, std::optional<std::size_t> part) {
  if (!part.has_value()) return;
  const auto [first, is_new] = parameter.of_parts.try_emplace(*part, fingerprint);
  parameter.differs_in_part |= first->second != fingerprint;
}

void add_rank(Parameter& parameter, const ToldReduction& told, double clip_factor, double weight,
              std::int64_t rank) {
  const double seen = weight == kUnknownWeight ? 1 : weight;
  if (parameter.ranks++ == 0) {
    parameter.fingerprint = told.fingerprint;
    parameter.weight = weight;
    parameter.arrived = told.before.sums;
  }
  Sums unweighed = {};
  add(unweighed, told.after.sums, 1 / (clip_factor * seen));
  if (parameter.ranks == 1) parameter.unweighed = unweighed;
  add(unweighed, parameter.unweighed, -1);
  parameter.differs_unweighed |=
      dot(unweighed, unweighed) > kMixed * kMixed * dot(parameter.unweighed, parameter.unweighed);
  parameter.arrived_alike &= parameter.arrived == told.before.sums;
  parameter.differs |= parameter.fingerprint != told.fingerprint;
  const bool is_kept = is_as_it_arrived(told, clip_factor * seen);
  parameter.is_as_it_arrived &= is_kept;
  parameter.kept_on += is_kept;
  parameter.was_mixed |= is_mixed(told);
  if (is_kept) parameter.kept_by = rank;
  Sums after = {};
  add(after, told.after.sums, 1 / clip_factor);
  const double arrived = dot(told.before.sums, told.before.sums) + told.before.squares;
  parameter.is_finite &= std::isfinite(dot(after, after) + told.after.squares);
  parameter.is_summed &= std::isfinite(arrived) && told.before.squares >= 0;
  const bool are_known = weight != kUnknownWeight && parameter.weight != kUnknownWeight;
  parameter.is_weighed |= are_known && !is_near(weight, parameter.weight);
  parameter.was_cleared |= told.total.has_value();
  parameter.grew_after |= told.grew_after;
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

std::string digits_of(double factor) {
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), "%.3g", factor);
  return text.data();
}

void read_ring(const RingReader& ring, const Cohort& cohort, Steps& steps) {
  const auto part = part_of(ring.head().rank, cohort);
  std::set<std::int64_t> reduce_last;
  std::set<std::int64_t> weighed;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind != BlobKind::kReductions) continue;
    const auto told = decode_reductions(blob.bytes);
    if (!told || (steps.size() >= kMaxSteps && !steps.contains(blob.step))) continue;
    const bool is_clipped = told->clip_factor > 0 && told->clip_factor < 1;
    const bool has_factor = std::isfinite(told->weight) && told->weight != kUnknownWeight;
    if (has_factor && weighed.insert(blob.step).second) {
      steps[blob.step].factors[digits_of(told->weight)].push_back(ring.head().rank);
    }
    if (told->calls > 0 && reduce_last.insert(blob.step).second) ++steps[blob.step].reduce_last;
    for (const ToldReduction& one : told->gradients) {
      Parameter& parameter = steps[blob.step].parameters[{blob.number, one.parameter}];
      add_rank(parameter, one, is_clipped ? told->clip_factor : 1, told->weight, ring.head().rank);
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

// A half is the factor of many a loss.
bool divides_by_period(double loss_scale, std::int64_t backwards) {
  return backwards > 2 && is_near(loss_scale * static_cast<double>(backwards), 1);
}

/// By step. The last of a step counts: one of a rank that stood still in it came before its calls.
std::map<std::int64_t, StepDigest> digests_of(const RingReader& ring) {
  std::map<std::int64_t, StepDigest> digests;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    if (const auto digest = ring.digest(place)) digests.insert_or_assign(digest->step, *digest);
  }
  return digests;
}

// What happened in the step, by the digests of the ranks; the most of them all.
void add_counts(const RingReader& ring, double ranks, Steps& steps) {
  StepDigest last{.step = -1};
  double loss_scale = 0;  // known of surveyed steps
  const BatchSizes batches(ring);
  for (const auto& [number, digest] : digests_of(ring)) {
    if (digest.loss_scale > 0) loss_scale = digest.loss_scale;
    const auto found = steps.find(number);
    const bool follows = number == last.step + 1;
    if (found != steps.end() && (follows || number == 1)) {
      const StepDigest before = follows ? last : StepDigest{};
      Step& step = found->second;
      const std::int64_t calls = digest.call_count - before.call_count;
      step.calls = std::max(step.calls, calls);
      if (calls == 0) step.silent.push_back(ring.head().rank);
      const std::int64_t backwards = digest.backwards - before.backwards;
      step.backwards = std::max(step.backwards, backwards);
      step.backwards_on[std::to_string(backwards)].push_back(ring.head().rank);
      step.divides_loss |=
          divides_by_ranks(loss_scale, batches.at(number), ranks, static_cast<double>(backwards));
      step.loss_scale = std::max(step.loss_scale, loss_scale);
      step.scale_is_known |= digest.loss_scale > 0;
      step.second_order |= digest.second_order;
      step.divides_by_period |= divides_by_period(loss_scale, backwards);
    }
    last = digest;
  }
}

/// A scale that grows or backs off between steps in which it is known looks like another divisor.
struct LastScale {
  std::optional<double> ratio;

  void look_at(const StepComparison& comparison, bool is_known, ReductionStep& result) {
    if (!comparison.is_unscaled()) return;
    if (is_known) {
      ratio = result.ratio;
    } else if (!ratio || !is_near_ratio(*ratio, *result.ratio)) {
      result.ratio.reset();
    }
  }
  static bool is_near_ratio(double a, double b) {
    return std::abs(a - b) <= kSameRatio * std::abs(b);
  }
};

std::set<std::uint32_t> models_in(const Steps& steps) {
  std::set<std::uint32_t> models;
  for (const auto& [number, step] : steps) {
    for (const auto& [place, parameter] : step.parameters) models.insert(place.model);
  }
  return models;
}

constexpr std::size_t kLongestDelay = 4;

/// Whether a program steps with the mean of a step before. Then what its own step brought tells
/// nothing of it, also where some of it is nearly the same.
struct Overlap {
  std::vector<std::size_t> places;  ///< in Cohort::reductions
  std::size_t known = 0;
  std::size_t late = 0;

  void add(const ReductionStep& step, bool follows, std::size_t place) {
    places.push_back(place);
    known += follows;
    late += step.of_step_before > 0;
  }
  /// One step may have the gradients of another by chance.
  bool is_usual() const { return late > 0 && 2 * late >= known; }
};

/// What the calls of the step were, and what its parameters are called.
void add_names(ReducedNames& names, std::uint32_t model, const StepComparison& comparison,
               ReductionStep& result) {
  const std::int64_t number = result.step;
  names.tell_calls(model, result);
  if (result.differing > 0) result.first_differing = names.at(comparison.differing(), number);
  if (result.differing > 0 && result.differing < result.sampled) {
    std::vector<DifferingTensor> parted;
    for (const ReducedPlace& place : comparison.parted()) {
      const ReducedParameter one = names.at(place, number);
      parted.push_back({.model = one.model, .path = one.path});
    }
    result.differing_module = common_module(parted);
  }
  if (result.as_they_arrived == result.sampled && result.calls > 0) {
    result.may_be_copies = names.may_be_copied(comparison.arrived(), number);
    result.of_few_numbers = names.are_of_few_numbers(model, number);
  }
  if (result.lost > 0) result.first_lost = names.at(comparison.lost(), number);
  if (result.undivided > 0) result.first_undivided = names.at(comparison.undivided(), number);
  if (result.noise > 0) result.worst = names.at(comparison.residual(), number);
}

/// A call whose result came back to another model is no copy of this one's gradients.
void leave_calls_to_others(std::vector<ReductionStep>& steps) {
  std::map<std::int64_t, std::int64_t> models_back;
  for (const ReductionStep& step : steps) {
    models_back[step.step] += step.calls > 0 && step.as_they_arrived == 0 && step.differing == 0;
  }
  for (ReductionStep& step : steps) step.may_be_copies &= step.calls > models_back[step.step];
}
}  // namespace

void compare_reductions(const RingList& rings, bool complete, Cohort& cohort) {
  if (rings.size() < 2 || rings.size() < cohort.ranks.size()) return;
  if (cohort.lists_differ) return;  // the same place may be another parameter
  Steps steps;
  for (const RingReader* ring : rings) read_ring(*ring, cohort, steps);
  for (const RingReader* ring : rings) add_counts(*ring, double(rings.size()), steps);
  ReducedNames names(*rings.front(), rings.size());
  for (auto& [number, step] : steps) step.of_gradients = names.may_be_of_gradients(number);
  // Two models may step in turn: what lasts is told by the steps of one.
  for (const std::uint32_t model : models_in(steps)) {
    std::vector<const Step*> before;
    Overlap overlap;
    LastScale scale;
    std::int64_t last = 0;
    for (const auto& [number, step] : steps) {
      const bool follows = !before.empty() && number == last + 1;
      if (!follows) before.clear();
      StepComparison comparison(number, step, rings.size(), complete);
      ReductionStep result = comparison.run(model, before);
      if (before.size() == kLongestDelay) before.erase(before.begin());
      before.push_back(&step);
      last = number;
      if (result.sampled == 0) continue;
      scale.look_at(comparison, step.scale_is_known, result);
      add_names(names, model, comparison, result);
      overlap.add(result, follows, cohort.reductions.size());
      cohort.reductions.push_back(std::move(result));
    }
    if (!overlap.is_usual()) continue;
    for (const std::size_t place : overlap.places) cohort.reductions[place].forget_values();
  }
  leave_calls_to_others(cohort.reductions);
  cohort.averages = cohort.averages || averages_by_value(cohort);
}

}  // namespace ddpscope
