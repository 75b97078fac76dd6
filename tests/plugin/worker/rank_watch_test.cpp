// The ring that a worker makes beside its rank file, and what it says of a rank that stands still.
#include <fstream>
#include <thread>

#include "exchange/rank_ring.h"
#include "plugin/worker.h"
#include "records/jsonl_reader.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::rank_watch_test {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace fs = std::filesystem;

LoopPosition somewhere() noexcept { return {.step = 7, .phase = Phase::kReduce}; }

WorkerOptions options_in(const TemporaryDir& dir, std::int64_t world_size = 2) {
  WorkerOptions options;
  options.run.run_id = "run-a";
  options.run.rank = 1;
  options.run.world_size = world_size;
  options.run.pid = ::getpid();
  options.settings.report_dir = dir / "out";
  options.settings.console = Console::kQuiet;
  options.settings.history = 100;
  options.where = &somewhere;
  return options;
}

TEST_CASE("a run of several ranks has a ring beside each rank file", "[ranks]") {
  const TemporaryDir dir;
  {
    Worker worker(options_in(dir));
    worker.start();
    REQUIRE(worker.calls() != nullptr);
    for (std::uint64_t i = 1; i <= 150; ++i) worker.calls()->issued({.seq = i, .group = 9});
    worker.finish(seconds(60), {});
  }
  RingReader ring;
  REQUIRE(ring.open(dir / "out/rank-1.ring") == "");
  CHECK(ring.head().run_id == "run-a");
  CHECK(ring.head().rank == 1);
  CHECK(ring.head().world_size == 2);
  CHECK(ring.head().pid == ::getpid());
  CHECK(ring.call_count() == 150);
  CHECK(ring.first_call() == 50);  // the setting `history`
  CHECK(ring.heartbeat().step == 7);
  CHECK(ring.heartbeat().phase == Phase::kReduce);
  CHECK(ring.heartbeat().unix_ns > 0);
  CHECK(ring.heartbeat().ended);
}

TEST_CASE("a run of one rank has no ring", "[ranks]") {
  const TemporaryDir dir;
  Worker worker(options_in(dir, 1));
  worker.start();
  CHECK(worker.calls() == nullptr);
  worker.finish(seconds(60), {});
  CHECK_FALSE(fs::exists(dir / "out/rank-1.ring"));
}

TEST_CASE("the heart of a rank beats each second", "[ranks]") {
  const TemporaryDir dir;
  Worker worker(options_in(dir));
  worker.start();
  const auto beat = [&] {
    RingReader ring;
    REQUIRE(ring.open(dir / "out/rank-1.ring") == "");
    return ring.heartbeat();
  };
  const std::int64_t first = beat().unix_ns;
  CHECK(first > 0);
  CHECK_FALSE(beat().ended);
  for (int i = 0; i < 100 && beat().unix_ns == first; ++i) {
    std::this_thread::sleep_for(milliseconds(30));
  }
  const std::int64_t passed_ns = beat().unix_ns - first;
  CHECK(passed_ns > 0);
  CHECK(passed_ns < 2'500'000'000);
  worker.finish(seconds(60), {});
}

TEST_CASE("the ring takes no more than half of what a rank may write", "[ranks]") {
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.history = 65536;
  options.settings.max_report_mb = 2;
  Worker worker(options);
  worker.start();
  worker.finish(seconds(60), {});
  const auto bytes = fs::file_size(dir / "out/rank-1.ring");
  CHECK(bytes <= 1 << 20);
  CHECK(bytes > 1 << 18);
}

TEST_CASE("a ring that cannot be made costs one line", "[ranks]") {
  const TemporaryDir dir;
  fs::create_directories(dir / "out");
  fs::create_directory(dir / "out/rank-1.ring");
  Worker worker(options_in(dir));
  worker.start();
  CHECK(worker.calls()->issued({.seq = 1}) == 0);
  worker.finish(seconds(60), {});
  const auto file = std::get<RankFile>(read_rank_file(dir / "out/rank-1.jsonl"));
  CHECK(file.summary);
}

/// Waits for it, and half a second for another.
ProgressRecord only_stall(const TemporaryDir& dir) {
  const auto file = [&] { return std::get<RankFile>(read_rank_file(dir / "out/rank-1.jsonl")); };
  for (int i = 0; i < 100 && file().progress.empty(); ++i) {
    std::this_thread::sleep_for(milliseconds(30));
  }
  std::this_thread::sleep_for(milliseconds(500));
  REQUIRE(file().progress.size() == 1);
  CHECK(file().progress[0].reason == "stall");
  return file().progress[0];
}

TEST_CASE("a rank that waits too long says where, once", "[ranks]") {
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.hang_after_s = 1;
  Worker worker(options);
  worker.start();
  CallRecord call{.seq = 12, .group = 0xabc, .elements = 400, .step = 4};
  call.owner = worker.calls()->name("conv1.weight.grad");
  call.module = worker.calls()->name("conv1");
  call.dtype = worker.calls()->name("float32");
  call.phase = Phase::kReduce;
  const int work = 0;
  const auto number = open_calls().issued(worker.calls()->issued(call), call);
  open_calls().returned(number, &work);
  open_calls().wait_began(&work);
  const ProgressRecord record = only_stall(dir);
  CHECK(record.step == 4);
  CHECK(record.phase == Phase::kReduce);
  CHECK(record.module_path == "conv1");
  CHECK(record.op == "all_reduce");
  CHECK(record.what.find("in all_reduce 12 of conv1.weight.grad (float32[400], group abc)") !=
        std::string::npos);
  open_calls().ended(number);
  worker.finish(seconds(60), {});
}

TEST_CASE("a rank that does nothing for too long says where, once", "[ranks]") {
  const TemporaryDir dir;
  WorkerOptions options = options_in(dir);
  options.settings.hang_after_s = 1;
  options.where = []() noexcept { return LoopPosition{.step = 7, .phase = Phase::kForward}; };
  Worker worker(options);
  worker.start();
  const ProgressRecord record = only_stall(dir);
  CHECK(record.step == 7);
  CHECK(record.phase == Phase::kForward);
  CHECK(record.what.starts_with("has stood still for 1"));
  worker.finish(seconds(60), {});
}

}  // namespace
}  // namespace ddpscope::test::rank_watch_test
