#include "tests/plugin/noted_calls.h"

#include <array>

#include "exchange/call_groups.h"
#include "exchange/rank_compare.h"
#include "exchange/reduction_record.h"

namespace ddpscope::test {
namespace {
template <class Enum, std::size_t kCount>
std::string word(Enum value, const std::array<const char*, kCount>& words) {
  return words.at(static_cast<std::size_t>(value));
}

std::string reduce_word(ReduceKind reduce) {
  if (reduce == ReduceKind::kNone) return "-";
  if (reduce == ReduceKind::kSum) return "sum";
  return reduce == ReduceKind::kMax ? "max" : "other";
}

NotedCall noted(const CallRecord& call, const RingReader& ring) {
  constexpr std::array<const char*, 11> kKinds = {
      "all_reduce",     "broadcast",  "reduce", "all_gather", "gather", "scatter",
      "reduce_scatter", "all_to_all", "send",   "receive",    "barrier"};
  constexpr std::array<const char*, 6> kPhases = {"init",   "forward",   "backward",
                                                  "reduce", "optimizer", "exit"};
  constexpr std::array<const char*, 3> kStates = {"issued", "completed", "failed"};
  Frame caller;
  for (const Frame& frame : compared_in_model(call, ring).site.frames) {
    if (caller.file.empty() && frame.file.ends_with("_test.cpp")) caller = frame;
  }
  return {.seq = call.seq,
          .group = call.group,
          .group_size = group_size(call.group),
          .unix_ns = call.unix_ns,
          .elements = call.elements,
          .step = call.step,
          .list = call.list,
          .root = call.root,
          .owner = ring.name(call.owner),
          .dtype = ring.name(call.dtype),
          .kind = word(call.kind, kKinds),
          .reduce = reduce_word(call.reduce),
          .phase = word(call.phase, kPhases),
          .state = word(call.state, kStates),
          .file = caller.file,
          .line = caller.line};
}

RanksComparedEvent compared(const std::vector<std::string>& ring_paths) {
  std::vector<RingReader> rings(ring_paths.size());
  for (std::size_t i = 0; i < rings.size(); ++i) rings[i].open(ring_paths[i]);
  return compare_ranks(rings, {.world_size = std::ssize(rings)});
}
}  // namespace

RingLeft read_ring(const std::string& path) {
  RingReader ring;
  RingLeft left{.error = ring.open(path)};
  if (!left.error.empty()) return left;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind != BlobKind::kReductions) continue;
    left.weights.push_back(decode_reductions(blob.bytes).value().weight);
  }
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    left.calls.push_back(call ? noted(*call, ring) : NotedCall{});
  }
  left.step = ring.heartbeat().step;
  left.ended = ring.heartbeat().ended;
  return left;
}

ValuesLeft compare_values_in(const std::vector<std::string>& ring_paths) {
  ValuesLeft left;
  for (const Cohort& cohort : compared(ring_paths).cohorts) {
    for (const RankCounts& counts : cohort.counts) left.evaluated.push_back(counts.evaluated);
    for (const ValuesDiffer& values : cohort.values) {
      for (const EstimatedDifference& estimate : values.estimate) {
        left.path = estimate.path;
        left.step = estimate.step;
        left.relative = estimate.relative;
      }
    }
  }
  return left;
}

std::vector<ReducedLeft> compare_gradients_in(const std::vector<std::string>& ring_paths) {
  std::vector<ReducedLeft> left;
  for (const Cohort& cohort : compared(ring_paths).cohorts) {
    for (const ReductionStep& step : cohort.reductions) {
      left.push_back({.step = step.step,
                      .sampled = step.sampled,
                      .differing = step.differing,
                      .ratio = step.ratio.value_or(0),
                      .residual = step.residual});
    }
  }
  return left;
}

std::vector<std::string> same_random_in(const std::vector<std::string>& ring_paths) {
  std::vector<std::string> operators;
  for (const Cohort& cohort : compared(ring_paths).cohorts) {
    for (const SameRandom& same : cohort.same_random) {
      operators.push_back(same.op + " " + std::to_string(same.steps));
    }
  }
  return operators;
}

}  // namespace ddpscope::test
