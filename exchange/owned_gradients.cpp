#include "exchange/owned_gradients.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "exchange/reduction_record.h"
#include "exchange/reduction_steps.h"

namespace ddpscope::reductions {
namespace {
using Parameters = std::map<ReducedPlace, Parameter>;

/// By step, what the ranks brought and did not step.
using Left = std::map<std::int64_t, Parameters>;

void for_each_told(const RingReader& ring, BlobKind kind, const auto& visit) {
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind != kind) continue;
    const auto told = decode_reductions(blob.bytes);
    if (!told.has_value()) continue;
    for (const ToldReduction& one : told->gradients) {
      visit(blob.step, ReducedPlace{blob.number, one.parameter}, one, told->weight);
    }
  }
}

void read_left(const RingReader& ring, const Steps& steps, Left& left) {
  // Another optimizer of the rank may have stepped it later in the step.
  std::set<std::pair<std::int64_t, ReducedPlace>> stepped;
  for_each_told(ring, BlobKind::kReductions,
                [&](std::int64_t step, const ReducedPlace& place, const auto&, double) {
                  stepped.emplace(step, place);
                });
  for_each_told(
      ring, BlobKind::kLeft,
      [&](std::int64_t step, const ReducedPlace& place, ToldReduction one, double weight) {
        if (!steps.contains(step) || stepped.contains({step, place})) return;
        one.after = one.before;
        add_rank(left[step][place], one, /*clip_factor=*/1, weight, ring.head().rank);
      });
}

void join(Arrived& to, const Arrived& arrived) {
  add(to.sums, arrived.sums, 1);
  to.norms += arrived.norms;
}

void scale(Sums& sums, double factor) {
  for (double& sum : sums) sum *= factor;
}

/// Nothing where some rank did not bring it, or all step it, or not alike.
std::optional<Parameter> owned(const Parameter& by, const Parameter& left, std::size_t ranks) {
  const bool is_of_all = by.ranks + left.ranks == ranks && by.brought + left.brought == ranks;
  if (!is_of_all || by.differs || by.ranks == 0) return std::nullopt;
  const double share = static_cast<double>(ranks) / static_cast<double>(by.ranks);
  Parameter all = by;
  all.is_owned = true;
  all.ranks = all.brought = ranks;
  all.is_as_it_arrived = all.arrived_alike = false;
  all.is_finite &= left.is_finite;
  all.is_summed &= left.is_summed;
  all.is_weighed |= left.is_weighed || are_other_weights(by.weight, left.weight);
  all.is_of_own_count |= left.is_of_own_count;
  all.was_cleared |= left.was_cleared;
  all.grew_after |= left.grew_after;
  join(all.last, left.last);
  join(all.total, left.total);
  scale(all.after, share);
  scale(all.stepped, share);
  all.stepped_dots *= share;
  return all;
}

Step owned_step(const Step& step, const Parameters& left, std::size_t ranks) {
  Step result = step;
  result.parameters.clear();
  for (const auto& [place, brought] : left) {
    const auto by = step.parameters.find(place);
    if (by == step.parameters.end()) continue;
    if (auto all = owned(by->second, brought, ranks)) {
      result.parameters.emplace(place, *std::move(all));
    }
  }
  const std::size_t owned = result.parameters.size();
  result.is_parted = owned == left.size() && owned == step.parameters.size();
  return result;
}
}  // namespace

Steps owned_steps(const RingList& rings, const Steps& steps) {
  Left left;
  for (const RingReader* ring : rings) read_left(*ring, steps, left);
  Steps result;
  for (const auto& [number, parameters] : left) {
    Step step = owned_step(steps.at(number), parameters, rings.size());
    if (!step.parameters.empty()) result.emplace(number, std::move(step));
  }
  return result;
}

}  // namespace ddpscope::reductions
