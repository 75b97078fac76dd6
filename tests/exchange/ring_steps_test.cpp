// What a ring shows of some of its steps.
#include "exchange/ring_steps.h"

#include <algorithm>

#include "exchange/reduction_record.h"
#include "tests/exchange/compared_rings.h"

namespace ddpscope::test::ring_steps_test {
namespace {
/// One step of a rank, with a call and what it was before and after the reduction.
void put_step(TestRank& rank, std::int32_t step, double rate = 0.1) {
  rank.at_step(step);
  rank.reduce("fc1.weight");
  const ToldReductions told{.calls = 1, .gradients = {{}}};
  rank.writer.put(
      Blob{.kind = BlobKind::kReductions, .number = 0, .step = step, .bytes = encode(told)});
  rank.digest({.step = step, .structure = 7, .optimizers = 8, .learning_rate = rate});
}

RingSet rings_of(const TestRun& run) { return open_rings(list_rings(run.dir()), "r1"); }

std::vector<std::int64_t> steps_of_calls(const RingReader& ring) {
  std::vector<std::int64_t> steps;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    if (const auto call = ring.call(place)) steps.push_back(call->step);
  }
  return steps;
}

std::vector<std::int64_t> steps_of_digests(const RingReader& ring) {
  std::vector<std::int64_t> steps;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    if (const auto digest = ring.digest(place)) steps.push_back(digest->step);
  }
  return steps;
}

std::vector<std::int64_t> steps_of_blobs(const RingReader& ring, BlobKind kind) {
  std::vector<std::int64_t> steps;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == kind) steps.push_back(blob.step);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST_CASE("ranks are compared up to the last step that each of them has ended", "[compare]") {
  TestRun run(3);
  CHECK(last_common_step(rings_of(run).rings) == 0);
  for (std::int32_t step = 1; step <= 9; ++step) {
    put_step(run[0], step);
    put_step(run[1], step);
    if (step <= 4) put_step(run[2], step);
  }
  CHECK(last_common_step(rings_of(run).rings) == 4);
  run[2].digest({.step = 5, .phase = Phase::kReduce});  // it stands still in the middle
  CHECK(last_common_step(rings_of(run).rings) == 4);
  run[2].digest({.step = 5});
  CHECK(last_common_step(rings_of(run).rings) == 5);
  CHECK(last_common_step({}) == 0);
}

TEST_CASE("of some steps a ring shows their calls, digests and reductions alone", "[compare]") {
  TestRun run(1);
  run[0].list(test_list());
  for (std::int32_t step = 0; step <= 9; ++step) put_step(run[0], step);
  run[0].list(test_list(), 8);
  RingSet set = rings_of(run);
  RingReader& ring = set.rings.front();
  CHECK(steps_of_blobs(ring, BlobKind::kTensors) == Steps{0, 8});
  show_steps(ring, 3, 6);
  CHECK(steps_of_calls(ring) == Steps{3, 4, 5, 6});
  CHECK(steps_of_digests(ring) == Steps{3, 4, 5, 6});
  CHECK(ring.digest(ring.digest_count() - 1)->step == 6);
  // What step 3 added to the counts is not known.
  CHECK(steps_of_blobs(ring, BlobKind::kReductions) == Steps{4, 5, 6});
  CHECK(steps_of_blobs(ring, BlobKind::kTensors) == Steps{0});
  CHECK(ring.name(1) == "fc1.weight.grad");
}

TEST_CASE("a ring that went round shows the steps that it still has", "[compare]") {
  TestRun run(1);
  for (std::int32_t step = 0; step <= 5000; ++step) put_step(run[0], step);
  RingSet set = rings_of(run);
  RingReader& ring = set.rings.front();
  show_steps(ring, 0, 4900);
  const Steps digests = steps_of_digests(ring);
  CHECK(digests.front() == 4745);  // 256 of 5001
  CHECK(digests.back() == 4900);
  CHECK(std::ranges::is_sorted(digests));
  const Steps calls = steps_of_calls(ring);
  CHECK(calls.front() == 905);  // 4096 of 5001
  CHECK(calls.back() == 4900);
}

TEST_CASE("a narrow part of a long ring is found without reading all of it", "[compare]") {
  TestRun run(1);
  for (std::int32_t step = 0; step <= 2000; ++step) put_step(run[0], step);
  RingSet set = rings_of(run);
  RingReader& ring = set.rings.front();
  show_steps(ring, 1900, 1903);
  CHECK(ring.call_count() - ring.first_call() < 200);
  CHECK(ring.digest_count() - ring.first_digest() == 4);
  CHECK(steps_of_calls(ring) == Steps{1900, 1901, 1902, 1903});
}

TEST_CASE("ranks that are some steps apart are compared as if they had ended together",
          "[compare]") {
  TestRun run(2);
  TestRun ended(2);
  for (std::int32_t step = 0; step <= 12; ++step) {
    const double other = step >= 6 ? 0.2 : 0.1;
    put_step(run[0], step);
    if (step <= 8) put_step(run[1], step, other);
    if (step > 8) continue;
    put_step(ended[0], step);
    put_step(ended[1], step, other);
  }
  RingSet set = rings_of(run);
  const std::int64_t last = last_common_step(set.rings);
  for (RingReader& ring : set.rings) show_steps(ring, 0, last);
  const RanksComparedEvent early = compare_ranks(set.rings, {.world_size = 2});
  const RanksComparedEvent whole = ended.compared();
  CHECK(early.calls == whole.calls);
  CHECK(early.digests == whole.digests);
  CHECK(early.frontiers.empty());
  REQUIRE(early.cohorts.size() == 1);
  REQUIRE(early.cohorts[0].digests.size() == 1);
  CHECK(early.cohorts[0].compared_steps == 9);
  CHECK(early.cohorts[0].digests[0].step == whole.cohorts[0].digests[0].step);
  CHECK(early.cohorts[0].digests[0].differing == whole.cohorts[0].digests[0].differing);
}

}  // namespace
}  // namespace ddpscope::test::ring_steps_test
