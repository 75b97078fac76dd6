#include "tests/support/catch.h"
#include "tests/support/events.h"

namespace ddpscope::test::perf_small_collectives_test {
namespace {
constexpr TensorId kParameters = 40;
constexpr TensorId kAnchors = 100;  // a buffer
constexpr TensorId kMean = 101;     // of a normalisation layer

/// A run of two ranks, as one of them sees it.
struct Ranks {
  explicit Ranks(std::int64_t world_size = 2)
      : program("perf-small-collectives", nullptr, world_size) {
    program.attach(1, net());
    program.optimizer(1, ids());
  }

  std::vector<TensorId> ids() const {
    std::vector<TensorId> ids;
    for (TensorId id = 1; id <= parameters; ++id) ids.push_back(id);
    return ids;
  }
  std::vector<Registered> net() const {
    std::vector<Registered> tensors;
    for (const TensorId id : ids()) {
      tensors.push_back({.id = id, .path = "w" + std::to_string(id), .shape = {elements}});
    }
    tensors.push_back(
        {.id = kAnchors, .path = "anchors", .requires_grad = false, .is_buffer = true});
    tensors.push_back(
        {.id = kMean, .path = "bn.running_mean", .requires_grad = false, .is_buffer = true});
    return tensors;
  }

  CollectiveEvent sum(std::int64_t bytes) const {
    return {.group_size = 2, .reduce = ReduceKind::kSum, .bytes = bytes};
  }
  void communicate() {
    for (int i = 0; i < calls; ++i) program.send_now(sum(call_bytes));
    program.send_now(CollectiveEndEvent{.waited_ms = waited_ms, .in_backward = waits_in_backward});
  }
  void step() {
    for (const TensorId id : broadcast) {
      program.send_now(
          CollectiveEvent{.group_size = 2, .kind = CollectiveKind::kBroadcast, .tensors = {id}});
    }
    for (int i = 0; i < micro_batches; ++i) {
      if (in_backward) program.in_backward = [this] { communicate(); };
      program.backward(ids());
    }
    if (!in_backward) communicate();
    program.wall_ms = 100;
    program.step(1);
    program.zero_grad(1);
  }
  void steps(int count = 64) {
    for (int i = 0; i < count; ++i) step();
  }

  TensorId parameters = kParameters;
  std::int64_t elements = 256;
  int micro_batches = 1;
  int calls = 2;
  std::int64_t call_bytes = 20 << 10;
  double waited_ms = 1;
  bool waits_in_backward = false;
  bool in_backward = true;
  std::vector<TensorId> broadcast;
  Program program;
};

std::vector<FactScalar> causes_of(const Ranks& ranks) {
  REQUIRE(ranks.program.findings.size() == 1);
  return fact_of<std::vector<FactScalar>>(ranks.program.findings[0], "causes");
}
const std::vector<FactScalar> kTiny = {std::string("tiny")};
const std::vector<FactScalar> kNoOverlap = {std::string("no_overlap")};
}  // namespace

TEST_CASE("perf-small-collectives notes one call per parameter", "[check]") {
  Ranks ranks;
  ranks.calls = 40;
  ranks.call_bytes = 1024;
  ranks.in_backward = false;
  ranks.waited_ms = 38;
  ranks.steps(63);
  CHECK(ranks.program.findings.empty());
  ranks.steps(100);
  REQUIRE(ranks.program.findings.size() == 1);
  const Finding& finding = ranks.program.findings[0];
  CHECK(finding.severity == Severity::kNote);
  CHECK(finding.step == 64);
  CHECK(finding.what ==
        "40 all-reduces per step, median 1.0 KiB, 38 % of the step is waiting (tiny, no_overlap)");
  CHECK(fact_of<std::int64_t>(finding, "calls_count") == 40);
  CHECK(fact_of<std::int64_t>(finding, "bytes") == 40 * 1024);
  CHECK(fact_of<std::int64_t>(finding, "median_bytes") == 1024);
  CHECK(fact_of<double>(finding, "bytes_ratio") == 1);
  CHECK(fact_of<double>(finding, "overlap_ratio") == 0);
  CHECK(fact_of<double>(finding, "waited_ms") == 38);
}

TEST_CASE("perf-small-collectives knows tiny calls from large ones and few from many", "[check]") {
  Ranks ranks;
  ranks.calls = GENERATE(10, 11);
  ranks.call_bytes = 1024;
  ranks.steps();
  if (ranks.calls == 10) {
    CHECK(ranks.program.findings.empty());
  } else {
    CHECK(causes_of(ranks) == kTiny);
  }
}

TEST_CASE("perf-small-collectives warns of waits that overlap could hide", "[check]") {
  Ranks ranks;
  ranks.in_backward = false;
  ranks.elements = 16 << 10;
  ranks.program.attach(1, ranks.net());
  ranks.call_bytes = 1 << 20;
  ranks.waited_ms = 21;
  ranks.steps();
  CHECK(causes_of(ranks) == kNoOverlap);
  CHECK(ranks.program.findings[0].severity == Severity::kWarning);
}

TEST_CASE("perf-small-collectives notes what is sent more than once per step", "[check]") {
  Ranks ranks;
  ranks.micro_batches = 2;
  ranks.steps();
  CHECK(causes_of(ranks) == std::vector<FactScalar>{std::string("every_micro_batch")});
  CHECK(ranks.program.findings[0].fixes[0].text ==
        "average after the last micro-batch of a step only");
}

TEST_CASE("perf-small-collectives notes buffers that nothing writes", "[check]") {
  Ranks ranks;
  ranks.broadcast = {kAnchors, kMean};
  ranks.program.send_now(TrainingOpEvent{.op = "aten::batch_norm", .statistics = kMean});
  ranks.steps();
  CHECK(causes_of(ranks) == std::vector<FactScalar>{std::string("constant_buffers")});
  CHECK(ranks.program.findings[0].why.starts_with("1 buffer broadcast in every step"));
  CHECK(ranks.program.findings[0].evidence_status == EvidenceStatus::kHypothesis);
}

TEST_CASE("perf-small-collectives stays silent on one rank and on sharded schemes", "[check]") {
  const bool is_sharded = GENERATE(false, true);
  Ranks ranks(is_sharded ? 2 : 1);
  ranks.calls = 40;
  ranks.call_bytes = 1024;
  for (int i = 0; i < 64; ++i) {
    if (is_sharded) {
      CollectiveEvent scattered = ranks.sum(1024);
      scattered.kind = CollectiveKind::kReduceScatter;
      ranks.program.send_now(scattered);
    }
    ranks.step();
  }
  CHECK(ranks.program.findings.empty());
}

TEST_CASE("perf-small-collectives stays silent on what models need", "[check]") {
  Ranks ranks;
  SECTION("on slow links with large buckets") {
    ranks.elements = 16 << 10;
    ranks.program.attach(1, ranks.net());
    ranks.call_bytes = 1 << 20;
    ranks.waited_ms = 60;
  }
  SECTION("on waits inside backward") {
    ranks.in_backward = false;
    ranks.waited_ms = 60;
    ranks.waits_in_backward = true;
  }
  SECTION("on waits of a model of few parameters for few bytes") {
    ranks.parameters = 8;
    ranks.call_bytes = 4 << 10;
    ranks.program.attach(1, ranks.net());
    ranks.in_backward = false;
    ranks.waited_ms = 60;
  }
  SECTION("on short waits") {
    ranks.in_backward = false;
    ranks.waited_ms = 20;
  }
  SECTION("on one batch whose sums go over hosts and then between them") {
    ranks.call_bytes = 40 << 10;
  }
  SECTION("on searches that need the mean of each of their gradients") {
    ranks.micro_batches = 3;
    ranks.program.optimizer_type = "torch::optim::LBFGS";
    ranks.program.optimizer(1, ranks.ids());
  }
  SECTION("on buffers that operators write") {
    ranks.broadcast = {kMean};
    ranks.program.send_now(TrainingOpEvent{.op = "aten::batch_norm", .statistics = kMean});
  }
  SECTION("on windows that lost events") {
    ranks.calls = 40;
    ranks.call_bytes = 1024;
    ranks.steps(60);
    ranks.program.drop_events();
    ranks.steps(63);
  }
  if (ranks.calls == 2) ranks.steps();
  CHECK(ranks.program.findings.empty());
}

TEST_CASE("perf-small-collectives stays silent on few parameters", "[check]") {
  Ranks ranks;
  ranks.parameters = GENERATE(31, 32);
  ranks.program.attach(1, ranks.net());
  ranks.program.members(1, {ranks.ids()});
  ranks.calls = 30;
  ranks.call_bytes = 1024;
  ranks.steps();
  CHECK(ranks.program.findings.size() == (ranks.parameters == 31 ? 0 : 1));
}

}  // namespace ddpscope::test::perf_small_collectives_test
