#include "exchange/reduction_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "exchange/batch_sizes.h"
#include "exchange/reduction_record.h"

namespace ddpscope::reductions {
namespace {
constexpr std::size_t kMaxSteps = 4096;
constexpr double kSameNumber = 1e-6;
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

}  // namespace

bool are_other_weights(double a, double b) {
  const bool are_known = a != kUnknownWeight && b != kUnknownWeight;
  return are_known && a != b && !is_near(a, b);
}

void add_rank(Parameter& parameter, const ToldReduction& told, double clip_factor, double weight,
              std::int64_t rank) {
  const double seen = weight == kUnknownWeight || weight == kOwnWeight ? 1 : weight;
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
  parameter.is_weighed |= are_other_weights(weight, parameter.weight);
  parameter.is_of_own_count |= weight == kOwnWeight;
  parameter.was_cleared |= told.total.has_value();
  parameter.grew_after |= told.grew_after;
  parameter.brought += told.before.squares > 0;
  parameter.last.add_rank(told.before);
  parameter.total.add_rank(told.total.value_or(told.before));
  add(parameter.after, after);
  add(parameter.stepped, told.after.sums);
  parameter.stepped_dots += dot(told.after.sums, told.after.sums);
}

namespace {
std::optional<std::size_t> part_of(std::int64_t rank, const Cohort& cohort) {
  for (std::size_t i = 0; i < cohort.parts.size(); ++i) {
    if (std::ranges::binary_search(cohort.parts[i], rank)) return i;
  }
  return std::nullopt;
}

std::string digits_of(double factor) {
  std::array<char, 32> text = {};
  std::snprintf(text.data(), text.size(), "%.3g", factor == kZeroWeight ? 0 : factor);
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
      step.least_rows = std::min(step.least_rows, batches.at(number).rows);
      step.most_rows = std::max(step.most_rows, batches.at(number).rows);
      step.divides_loss |=
          divides_by_ranks(loss_scale, batches.at(number), ranks, static_cast<double>(backwards));
      step.loss_scale = std::max(step.loss_scale, loss_scale);
      step.loss_shares += loss_scale;
      step.shares += loss_scale > 0 && loss_scale < 1;
      step.scale_is_known |= digest.loss_scale > 0;
      step.second_order |= digest.second_order;
      step.divides_by_period |= divides_by_period(loss_scale, backwards);
    }
    last = digest;
  }
}

/// Weighed by its rows over those of all ranks, a sum over the ranks is the mean over all rows.
bool are_shares(const Step& step, double ranks) {
  const bool are_alike = is_near(step.loss_scale * ranks, step.loss_shares);
  return double(step.shares) == ranks && !are_alike && is_near(step.loss_shares, 1);
}
}  // namespace

Steps steps_of(const RingList& rings, const Cohort& cohort) {
  Steps steps;
  for (const RingReader* ring : rings) read_ring(*ring, cohort, steps);
  for (const RingReader* ring : rings) add_counts(*ring, double(rings.size()), steps);
  for (auto& [number, step] : steps) step.divides_loss |= are_shares(step, double(rings.size()));
  return steps;
}

}  // namespace ddpscope::reductions
