#include "exchange/dropped_averages.h"

#include <algorithm>
#include <map>
#include <optional>

#include "exchange/reduction_fit.h"
#include "exchange/reduction_record.h"
#include "exchange/summed_weights.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
using SumsAt = std::map<SketchPlace, Sums>;

constexpr std::size_t kMaxMovedRanks = 16;
constexpr std::size_t kMostMoves = 64;
constexpr double kDrawn = 0.005;  // of the distance to the mean

/// What an optimizer was about to step with.
SumsAt gradients_at(const RingReader& ring, std::int64_t step) {
  SumsAt gradients;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind != BlobKind::kReductions || blob.step != step) continue;
    const auto told = decode_reductions(blob.bytes);
    if (!told) continue;
    for (const ToldReduction& one : told->gradients) {
      gradients[{blob.number, one.parameter}] = one.after.sums;
    }
  }
  return gradients;
}

/// The first step begins with what is read at the start.
SketchesAt weights_at(const RingReader& ring, std::int64_t step) {
  return sketches_at(ring, step == 1 ? 0 : step);
}

/// What one step of SGD made of the weights of a rank, less what it has to.
struct WeightMove {
  SumsAt weights;  ///< after it
  double beside = 0;
};

/// Of the step that ended before `step` began; nothing where it is not known.
std::optional<WeightMove> move_before(const RingReader& ring, std::int64_t step) {
  const auto digest = find_digest(ring, step - 1);
  const SketchesAt last = step > 2 ? weights_at(ring, step - 2) : SketchesAt{};
  if (!digest || digest->learning_rate <= 0 || (step > 2 && last.empty())) return std::nullopt;
  const SketchesAt before = weights_at(ring, step - 1);
  const SketchesAt after = weights_at(ring, step);
  WeightMove move;
  for (const auto& [place, gradient] : gradients_at(ring, step - 1)) {
    if (!before.contains(place) || !after.contains(place)) continue;
    if (step > 2 && !last.contains(place)) continue;
    const Sums& from = before.at(place).sums;
    move.weights[place] = after.at(place).sums;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double velocity = step > 2 ? from[i] - last.at(place).sums[i] : 0;
      const double due = digest->momentum * velocity -
                         digest->learning_rate * (gradient[i] + digest->weight_decay * from[i]);
      const double beside = move.weights[place][i] - from[i] - due;
      move.beside += beside * beside;
    }
  }
  return move.weights.empty() ? std::nullopt : std::optional(move);
}

/// The square of the distance of a rank to the mean of all.
double distance_to_mean(const std::vector<WeightMove>& moves, const WeightMove& own) {
  double squares = 0;
  for (const auto& [place, sums] : own.weights) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double mean = 0;
      for (const WeightMove& move : moves) mean += move.weights.at(place)[i];
      mean /= static_cast<double>(moves.size());
      squares += (sums[i] - mean) * (sums[i] - mean);
    }
  }
  return squares;
}

enum class MovedBy { kUnknown, kByGradients, kOtherwise };

MovedBy moved_before(const RingList& rings, std::int64_t step) {
  std::vector<WeightMove> moves;
  for (const RingReader* ring : rings) {
    auto move = move_before(*ring, step);
    if (!move) return MovedBy::kUnknown;
    const auto has_it = [&](const auto& one) { return move->weights.contains(one.first); };
    const bool is_alike = moves.empty() || (moves[0].weights.size() == move->weights.size() &&
                                            std::ranges::all_of(moves[0].weights, has_it));
    if (!is_alike) return MovedBy::kUnknown;
    moves.push_back(*std::move(move));
  }
  const bool are_due = std::ranges::all_of(moves, [&moves](const WeightMove& move) {
    return move.beside < kDrawn * kDrawn * distance_to_mean(moves, move);
  });
  return are_due ? MovedBy::kByGradients : MovedBy::kOtherwise;
}

/// Elements that were reduced over all ranks between steps, by the step that began next.
std::map<std::int64_t, std::uint64_t> reduced_between(const RingReader& ring, std::size_t ranks) {
  std::map<std::int64_t, std::uint64_t> elements;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    const bool is_between = call && call->phase < Phase::kBackward && call->step > 1;
    if (!is_between || group_size(call->group) != static_cast<std::int64_t>(ranks)) continue;
    if (call->kind == CollectiveKind::kAllReduce) elements[call->step] += call->elements;
  }
  return elements;
}
}  // namespace

std::vector<std::int64_t> steps_of_dropped_averages(const RingList& rings, const Cohort& cohort) {
  const bool may_be = !cohort.averages && cohort.equal_at_start && cohort.equal_steps.size() == 1 &&
                      cohort.partly_equal_steps.empty();
  if (!may_be || rings.size() < 2 || rings.size() > kMaxMovedRanks) return {};
  std::uint64_t weights = 0;
  for (const auto& [model, list] : lists_at(rings.front()->blobs(), INT64_MAX)) {
    weights += trained_elements(list);
  }
  const auto reduced = reduced_between(*rings.front(), rings.size());
  std::vector<std::int64_t> steps;
  std::size_t looked_at = 0;
  for (const std::int64_t step : cohort.unequal_steps) {
    if (looked_at == kMostMoves) break;
    const MovedBy moved = moved_before(rings, step);
    if (moved == MovedBy::kOtherwise) return {};
    if (moved == MovedBy::kUnknown) continue;
    ++looked_at;
    const auto found = reduced.find(step);
    if (found != reduced.end() && found->second == weights) steps.push_back(step);
  }
  // In each of them: it may be gradients, which are averaged too late.
  return steps.size() < looked_at ? steps : std::vector<std::int64_t>();
}

}  // namespace ddpscope
