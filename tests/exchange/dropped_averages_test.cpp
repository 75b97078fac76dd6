// Weights that are reduced now and then, and of which nothing comes back.
#include "tests/exchange/reducing_ranks.h"

namespace ddpscope::test::dropped_averages_test {
namespace {
constexpr double kRate = 0.1;
constexpr double kMomentum = 0.9;
constexpr std::uint64_t kElements = 56;  // of test_list()

/// Two ranks that train fc2.weight by SGD from equal weights, each by gradients of its own.
struct Trained {
  double drawn = 0;         ///< to the mean, after each reduction
  bool are_reduced = true;  ///< before steps 4, 7 and 10
  std::int64_t every = 3;   ///< steps
  std::uint64_t elements = kElements;
  Phase phase = Phase::kForward;

  std::vector<std::int64_t> dropped_steps() const {
    TestRun run(2);
    std::array<Values, 2> weights = {kOne, kOne};
    std::array<Values, 2> velocities = {};
    for (auto& rank : run) rank->list(test_list());
    for (std::int64_t step = 1; step <= 11; ++step) {
      const bool is_reduced = are_reduced && step % every == 1 % every && step > 1;
      if (is_reduced) draw(weights);
      for (std::size_t rank = 0; rank < 2; ++rank) {
        run[rank].at_step(static_cast<std::int32_t>(step));
        if (is_reduced) run[rank].call({.elements = elements, .phase = phase});
        put(run[rank], step, weights[rank]);
        const Values gradient = scaled(rank == 0 ? kOther : kSum, 1 + 0.1 * double(step % 4));
        for (std::size_t i = 0; i < 4; ++i) {
          velocities[rank][i] = kMomentum * velocities[rank][i] - kRate * gradient[i];
          weights[rank][i] += velocities[rank][i];
        }
        put_gradient(run[rank], step, gradient);
        run[rank].digest({.step = step,
                          .structure = 7,
                          .parameters = step == 1 ? 0 : 6 + rank,
                          .learning_rate = kRate,
                          .momentum = kMomentum,
                          .optimizer_steps = static_cast<std::int32_t>(step)});
      }
    }
    return run.compared().cohorts.at(0).dropped_steps;
  }

 private:
  void draw(std::array<Values, 2>& weights) const {
    for (std::size_t i = 0; i < 4; ++i) {
      const double mean = (weights[0][i] + weights[1][i]) / 2;
      for (Values& one : weights) one[i] += drawn * (mean - one[i]);
    }
  }
  static void put(TestRank& rank, std::int64_t step, const Values& values) {
    std::vector<GradientSketch> sketches(4, kNoSketch);
    sketches[2] = sketch_of(values);
    const std::int64_t at = step == 1 ? 0 : step;
    rank.writer.put(Blob{BlobKind::kSketches, 0, at, encode(sketches)});
    if (at == 0) rank.digest({.step = 0, .structure = 7, .parameters = 5});
  }
  static void put_gradient(TestRank& rank, std::int64_t step, const Values& values) {
    ToldReductions told;
    told.gradients.push_back(
        {.parameter = 2, .before = sketch_of(values), .after = sketch_of(values)});
    rank.writer.put(Blob{BlobKind::kReductions, 0, step, encode(told)});
  }
};
}  // namespace

TEST_CASE("averages of weights of which nothing comes back are known", "[compare]") {
  CHECK(Trained{}.dropped_steps() == std::vector<std::int64_t>{4, 7, 10});
}

TEST_CASE("weights that are drawn to their mean are not taken for dropped", "[compare]") {
  const double drawn = GENERATE(0.02, 0.1, 0.5, 1.0);
  CHECK(Trained{.drawn = drawn}.dropped_steps().empty());
}

TEST_CASE("nothing was dropped where no call was of all weights between steps", "[compare]") {
  CHECK(Trained{.are_reduced = false}.dropped_steps().empty());
  CHECK(Trained{.elements = kElements / 2}.dropped_steps().empty());
  CHECK(Trained{.phase = Phase::kReduce}.dropped_steps().empty());
}

TEST_CASE("calls before every step may be of gradients, averaged too late", "[compare]") {
  CHECK(Trained{.every = 2}.dropped_steps().size() == 5);
  CHECK(Trained{.every = 1}.dropped_steps().empty());
}

}  // namespace ddpscope::test::dropped_averages_test
