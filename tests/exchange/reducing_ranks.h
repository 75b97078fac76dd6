#pragma once

#include <array>
#include <bit>
#include <optional>

#include "exchange/reduction_record.h"
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test {

using Values = std::array<double, 4>;

inline GradientSketch sketch_of(const Values& values) {
  GradientSketch sketch{.squares = 0, .sums = values};
  for (const double value : values) sketch.squares += value * value / 4;
  return sketch;
}

inline Values scaled(const Values& values, double factor) {
  Values result = values;
  for (double& value : result) value *= factor;
  return result;
}

inline constexpr Values kOne = {1, -2, 3, 0.5};
inline constexpr Values kOther = {2, 1, -1, 4};
inline constexpr Values kSum = {3, -1, 2, 4.5};

/// Two ranks that bring kOne and kOther, and step with what is given.
class TwoRanks {
 public:
  explicit TwoRanks(const TensorList& list = test_list()) {
    for (auto& rank : run_) rank->list(list);
  }

  void step(std::int64_t number, const Values& after_first, const Values& after_second,
            double clip_factor = 1) {
    put(0, number, {kOne, after_first, clip_factor});
    put(1, number, {kOther, after_second, clip_factor});
  }

  struct Told {
    Values before;
    Values after;
    double clip_factor = 1;
    std::uint32_t parameter = 2;
    double weight = 1;
    bool is_changed = false;
    std::uint32_t model = 0;
    std::uint64_t calls = 1;
    std::optional<Values> total;
  };
  void put(std::size_t rank, std::int64_t number, const Told& one) {
    std::uint64_t fingerprint = 1;
    for (const double value : one.after)
      fingerprint = fingerprint * 31 + std::bit_cast<std::uint64_t>(value);
    ToldReductions told{
        .clip_factor = one.clip_factor, .weight = one.weight, .calls = one.calls, .gradients = {}};
    told.gradients.push_back({.parameter = one.parameter,
                              .before = one.is_changed ? kNoSketch : sketch_of(one.before),
                              .total = std::nullopt,
                              .after = sketch_of(one.after),
                              .fingerprint = fingerprint});
    if (one.total.has_value()) told.gradients.back().total = sketch_of(*one.total);
    run_[rank].writer.put(Blob{
        .kind = BlobKind::kReductions, .number = one.model, .step = number, .bytes = encode(told)});
  }

  void call(const TestCall& call) {
    for (auto& rank : run_) rank->call(call);
  }

  void at_step(std::int32_t step) {
    for (auto& rank : run_) rank->at_step(step);
  }

  /// Later calls are of one group of both, or of one for each.
  void enter(bool of_both) {
    for (const std::uint64_t rank : {0, 1}) {
      run_[rank].enter(of_both ? group_key(9 << 21, 2) : group_key((10 + rank) << 21, 1));
    }
  }

  /// What they hold before the first step.
  void begin(bool are_equal) {
    for (std::size_t rank : {0, 1}) {
      run_[rank].digest({.step = 0, .structure = 7, .parameters = are_equal ? 5 : 5 + rank});
    }
  }

  void silence_second() { calls_of_second_ = 0; }

  /// After the backwards of a step, before its collectives.
  void stand_still(std::int64_t step, std::int32_t backwards = 2) {
    for (auto& rank : run_) {
      rank->digest({.step = step, .structure = 7, .backwards = backwards, .phase = Phase::kReduce});
    }
  }

  /// `loss_scale`: 0 where it is not known.
  void digest(std::int64_t step, double loss_scale) {
    for (auto& rank : run_) {
      rank->digest({.step = step,
                    .structure = 7,
                    .loss_scale = loss_scale,
                    .backwards = static_cast<std::int32_t>(step),
                    .call_count = static_cast<std::int32_t>(step)});
    }
  }
  std::vector<ReductionStep> reductions() { return compare(2).cohorts.at(0).reductions; }

  void batch(const std::string& text) {
    for (auto& rank : run_) {
      rank->writer.put(Blob{.kind = BlobKind::kBatch, .number = 0, .step = 1, .bytes = text});
    }
  }

  /// `ranks` of the run, of which two left rings.
  std::vector<ReductionStep> compared(std::int64_t ranks = 2, double loss_scale = 0,
                                      std::int32_t backwards = 2) {
    for (auto& rank : run_) {
      rank->digest({.step = 1,
                    .structure = 7,
                    .loss_scale = loss_scale,
                    .backwards = backwards,
                    .call_count = rank.get() == &run_[1] ? calls_of_second_ : 3});
    }
    const RanksComparedEvent event = compare(ranks);
    REQUIRE(event.cohorts.size() == 1);
    return event.cohorts[0].reductions;
  }

  /// Of a step with one backward on ranks whose losses have scales of their own.
  std::vector<ReductionStep> compared_with(const std::array<double, 2>& loss_scales) {
    for (const std::size_t rank : {0, 1}) {
      run_[rank].digest({.step = 1,
                         .structure = 7,
                         .loss_scale = loss_scales[rank],
                         .backwards = 1,
                         .call_count = 3});
    }
    return compare(2).cohorts.at(0).reductions;
  }

  bool average() { return compare(2).cohorts.at(0).averages; }

 private:
  RanksComparedEvent compare(std::int64_t ranks) {
    const RingSet set = open_rings(list_rings(run_.dir()), "r1");
    return compare_ranks(set.rings, {.world_size = ranks});
  }

  TestRun run_{2};
  std::int32_t calls_of_second_ = 3;
};

}  // namespace ddpscope::test
