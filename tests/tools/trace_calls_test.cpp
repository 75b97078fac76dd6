#include "tools/trace_calls.h"

#include <fcntl.h>

#include "exchange/rank_ring.h"
#include "records/file_descriptor.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::trace_calls_test {
namespace {

TEST_CASE("the collectives of a ring go to their rank", "[tools]") {
  const TemporaryDir dir;
  const FileDescriptor folder(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY));
  RingWriter ring;
  REQUIRE(ring.open(folder.get(), {.run_id = "r", .rank = 1, .world_size = 2},
                    {.calls = 16, .digests = 16, .kept_bytes = 4096, .recent_bytes = 4096})
              .empty());
  const auto owner = ring.name("conv1.weight.grad");
  for (int i = 1; i <= 20; ++i) {
    const auto place = ring.issued(
        {.seq = static_cast<std::uint64_t>(i), .unix_ns = 1000 * i, .step = i, .owner = owner});
    if (i < 20) ring.ended(place, 7, CallState::kCompleted);
  }
  MergedReport report{.run_id = "r"};
  report.ranks = {{.run = {.rank = 0}}, {.run = {.rank = 1}}};
  add_calls({dir.path()}, report);
  CHECK(report.ranks[0].calls.empty());
  const auto& calls = report.ranks[1].calls;
  REQUIRE(calls.size() == 16);
  CHECK(calls[0].step == 5);
  CHECK(calls[0].name == "all_reduce of conv1.weight.grad");
  CHECK(calls[0].waited_us == 7);
  CHECK(calls[14].has_ended);
  CHECK_FALSE(calls[15].has_ended);
}

TEST_CASE("rings of another run are no part of a trace", "[tools]") {
  const TemporaryDir dir;
  MergedReport report{.run_id = "r"};
  report.ranks = {{.run = {.rank = 0}}};
  add_calls({dir.path(), dir / "absent"}, report);
  CHECK(report.ranks[0].calls.empty());
}

}  // namespace
}  // namespace ddpscope::test::trace_calls_test
