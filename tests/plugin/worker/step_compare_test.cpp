// What is said of ranks while they train.
#include "plugin/step_compare.h"

#include <limits>
#include <memory>

#include "checks/ranks_judge.h"
#include "exchange/rank_compare.h"
#include "tests/support/catch.h"
#include "tests/support/rank_rings.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::step_compare_test {
namespace {
constexpr std::int64_t kLongNs = 3'600'000'000'000;
constexpr double kRate = 0.1;

RunRecord run_of(std::int64_t rank, std::int64_t world_size) {
  RunRecord run;
  run.run_id = "r1";
  run.rank = rank;
  run.world_size = world_size;
  run.checks = {"rank-optimizer-differs", "collective-mismatch", "collective-hang",
                "rank-step-lag"};
  return run;
}

/// Ranks that train, and what one of them says of all.
class Training {
 public:
  struct How {
    std::int64_t ranks = 2;
    std::int64_t speaker = 0;
    std::int64_t absent = -1;  ///< has no ring
    Exchange exchange = Exchange::kAuto;
  };
  explicit Training(const How& how)
      : speaker_(run_of(how.speaker, how.ranks), settings(how.exchange)) {
    for (std::int64_t rank = 0; rank < how.ranks; ++rank) {
      if (rank == how.absent) continue;
      ranks_.push_back(std::make_unique<TestRank>(dir_.path(), rank, how.ranks));
      REQUIRE(ranks_.back()->problem.empty());
    }
    speaker_.begin(dir_.path(), 1);
  }
  Training() : Training(How{}) {}

  bool averages = true;
  bool last_beats = true;
  std::int64_t differs_from = std::numeric_limits<std::int64_t>::max();  ///< the last rank's rate
  bool has_to_end = false;
  bool only_images = false;
  bool is_heard = false;

  /// Up to this step; the last rank up to another one.
  void train_to(std::int64_t step) { train_to(step, step); }
  void train_to(std::int64_t step, std::int64_t of_last) {
    done_.resize(ranks_.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const bool is_last = i + 1 == ranks_.size();
      const std::int64_t end = is_last ? of_last : step;
      while (done_[i] < end) put_step(*ranks_[i], ++done_[i], is_last);
    }
  }

  Findings look() {
    for (auto& rank : ranks_) {
      rank->pass_ms(1000);
      if (rank != ranks_.back() || last_beats) rank->beat("fc1");
    }
    now_ns_ += kLongNs;
    if (!speaker_.is_due(now_ns_)) return {};
    return speaker_.look(now_ns_, {.own = [] { return Findings(); },
                                   .has_to_end = [this] { return has_to_end; },
                                   .only_images = only_images,
                                   .is_heard = is_heard});
  }

  /// As a merge says it now.
  Findings merged() const {
    const RingSet set = open_rings(list_rings(dir_.path()), "r1");
    const RanksComparedEvent run = compare_ranks(set.rings, {.world_size = 2});
    return judge_ranks(run, {.enabled = {"rank-optimizer-differs"}}).findings;
  }

  void begin_epoch(std::int64_t step, int batches, int of_last) {
    for (auto& rank : ranks_) {
      const int own = rank == ranks_.back() ? of_last : batches;
      rank->writer.put(Blob{.kind = BlobKind::kEpoch, .step = step, .bytes = std::to_string(own)});
    }
  }

  std::string dir() const { return dir_.path(); }
  TestRank& last() { return *ranks_.back(); }

 private:
  static Settings settings(Exchange exchange) {
    Settings settings;
    settings.exchange = exchange;
    return settings;
  }
  void put_step(TestRank& rank, std::int64_t step, bool is_last) {
    rank.at_step(static_cast<std::int32_t>(step));
    if (averages) rank.reduce("fc1.weight");
    const bool differs = is_last && step >= differs_from;
    rank.digest({.step = step,
                 .optimizers = differs ? 2u : 1u,
                 .learning_rate = differs ? 0.01 : kRate,
                 .optimizer_steps = static_cast<std::int32_t>(step),
                 .groups = 1,
                 .averages = averages});
  }

  TemporaryDir dir_;
  std::vector<std::unique_ptr<TestRank>> ranks_;
  StepCompare speaker_;
  std::vector<std::int64_t> done_;  // steps, by place in `ranks_`
  std::int64_t now_ns_ = 1;
};

TEST_CASE("a difference between ranks is told while they train, as a merge says it",
          "[step_compare]") {
  Training training;
  training.differs_from = 3;
  training.train_to(4);
  CHECK(training.look().empty());  // whether all ranks live is not known yet
  CHECK(training.look().empty());  // found, and not yet confirmed
  CHECK(training.look().empty());  // nothing is new
  training.train_to(8);
  const Findings found = training.look();
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == "rank-optimizer-differs");
  CHECK(found[0].severity == Severity::kError);
  CHECK(found[0].what == "learning rate 0.01 on rank 1, 0.1 on rank 0, since step 3");
  CHECK(found[0].step == 3);
  const Findings merged = training.merged();
  REQUIRE(merged.size() == 1);
  CHECK(found[0].what == merged[0].what);
  CHECK(found[0].why == merged[0].why);
  CHECK(found[0].fingerprint == merged[0].fingerprint);
}

TEST_CASE("that epochs will end at different steps is told while they train", "[step_compare]") {
  Training training;
  training.begin_epoch(1, 50, 49);
  Findings found;
  for (std::int64_t step = 2; step < 40 && found.empty(); step += 2) {
    training.train_to(step);
    found = training.look();
  }
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == "rank-step-lag");
  CHECK(found[0].severity == Severity::kNote);
  CHECK(found[0].what == "batches left in this epoch: 49 on rank 1, 50 on rank 0");
  training.train_to(48);
  CHECK(training.look().empty());
}

TEST_CASE("it is told once, also when the ring has forgotten its first steps", "[step_compare]") {
  Training training;
  training.differs_from = 3;
  std::size_t told = 0;
  for (std::int64_t step = 4; step < 2000; step += 20) {
    training.train_to(step);
    told += training.look().size();
  }
  CHECK(told == 1);
}

TEST_CASE("between two comparisons no step is left out", "[step_compare]") {
  Training training;
  training.differs_from = 700;
  for (const std::int64_t step : {1, 2, 4, 650}) {
    training.train_to(step);
    CHECK(training.look().empty());
  }
  training.train_to(800);
  CHECK(training.look().empty());
  training.train_to(850);
  const Findings found = training.look();
  REQUIRE(found.size() == 1);
  CHECK(found[0].step == 700);
}

TEST_CASE("steps that one of the ranks has not ended are not compared", "[step_compare]") {
  Training training;
  training.differs_from = 5;
  training.train_to(60, 4);
  training.last().digest({.step = 5,
                          .optimizers = 2,
                          .learning_rate = 0.01,
                          .groups = 1,
                          .phase = Phase::kReduce,
                          .averages = true});
  for (int i = 0; i < 5; ++i) CHECK(training.look().empty());
  training.train_to(60, 20);
  CHECK(training.look().empty());
  training.train_to(60, 40);
  CHECK(training.look().size() == 1);
}

TEST_CASE("nothing is said while ranks train", "[step_compare]") {
  Training::How how;
  std::int64_t since = 1;
  SECTION("where they agree") { since = std::numeric_limits<std::int64_t>::max(); }
  SECTION("where the exchange is off") { how.exchange = Exchange::kOff; }
  SECTION("by a rank above one that is there") { how.speaker = 1; }
  Training training(how);
  training.differs_from = since;
  SECTION("where they did not average yet") { training.averages = false; }
  SECTION("where the ring of one is left of an earlier run") { training.last_beats = false; }
  SECTION("when the program is about to end") { training.has_to_end = true; }
  SECTION("of rings in the folder where all come over a store") { training.only_images = true; }
  SECTION("by a rank that a lower one hears") { training.is_heard = true; }
  for (std::int64_t step = 1; step < 200; step += 9) {
    training.train_to(step);
    for (const Finding& finding : training.look()) {
      CHECK_FALSE(training.last_beats);  // the rank of this run has left nothing
      CHECK(finding.id == "tool-rank-missing");
    }
  }
}

TEST_CASE("rings of other runs in the folder are no ranks of this one", "[step_compare]") {
  Training training;
  const TestRank other(training.dir(), 2, 3, "r2");
  const TestRank of_more(training.dir(), 3, 4, "r1");
  training.differs_from = 1;
  std::size_t told = 0;
  for (std::int64_t step = 1; step < 100; step += 9) {
    training.train_to(step);
    told += training.look().size();
  }
  CHECK(told == 1);
}

TEST_CASE("the lowest rank of a folder speaks where rank 0 has no ring there", "[step_compare]") {
  Training training({.ranks = 3, .speaker = 1, .absent = 0});
  training.differs_from = 1;
  std::size_t told = 0;
  for (std::int64_t step = 1; step < 100; step += 9) {
    training.train_to(step);
    told += training.look().size();
  }
  CHECK(told == 1);
}

}  // namespace
}  // namespace ddpscope::test::step_compare_test
