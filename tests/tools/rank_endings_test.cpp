#include "tools/rank_endings.h"

#include <unistd.h>

#include <array>

#include "records/jsonl_writer.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {
RankFile file_of(std::int64_t rank, std::vector<ProgressRecord> progress = {}) {
  return {.path = "/nonexistent/rank-" + std::to_string(rank) + ".jsonl",
          .run = sample_run(rank, 2),
          .progress = std::move(progress),
          .last_step = 5};
}

RankFile finished(RankFile file, bool clean = true) {
  file.summary = sample_summary();
  file.summary->clean_exit = clean;
  return file;
}

ProgressRecord note(const std::string& reason, std::int64_t time, Phase phase = Phase::kForward) {
  ProgressRecord record;
  record.step = 6;
  record.phase = phase;
  record.reason = reason;
  record.time_unix_ns = time;
  if (reason == "signal") record.signal = "SIGTERM";
  if (reason == "exit") record.code = 2;
  return record;
}

LaunchRecord launch_of(LaunchedRank rank, const std::string& run_id = "run-a") {
  return {.run_id = run_id, .ranks = {std::move(rank)}};
}

RankEnding only(const RankFile& file, const std::vector<LaunchRecord>& launches = {}) {
  const RanksEndedEvent run = endings_of({file}, launches);
  REQUIRE(run.ranks.size() == 1);
  return run.ranks[0];
}
}  // namespace

TEST_CASE("a rank with a clean summary ended cleanly", "[tools]") {
  const RankEnding ending = only(finished(file_of(0)));
  CHECK(ending.kind == EndKind::kClean);
  CHECK(ending.step == 120);
  CHECK(only(finished(file_of(0)), {launch_of({.rank = 0, .code = 7})}).kind == EndKind::kClean);
}

TEST_CASE("a rank that could write no more may have ended in any way", "[tools]") {
  RankFile file = file_of(0);
  CHECK(only(file).kind == EndKind::kKilled);
  file.ran_out = true;
  CHECK(endings_of({file}, {}).ranks.empty());
  CHECK(only(file, {launch_of({.rank = 0, .code = 7})}).kind == EndKind::kExit);
}

TEST_CASE("a rank tells the device that it used", "[tools]") {
  RankFile file = finished(file_of(0));
  CHECK(only(file).device.uuid.empty());
  file.run.device = "GPU-5f1c";
  file.run.device_index = 1;
  file.run.visible_devices = 4;
  file.run.device_mask = "CUDA_VISIBLE_DEVICES";
  CHECK(only(file).device.uuid == "GPU-5f1c");
  CHECK(only(file).device.index == 1);
  CHECK(only(file).device.visible_count == 4);
  CHECK(only(file).device.mask == "CUDA_VISIBLE_DEVICES");
  CHECK(!only(file).device.is_shared);
  file.run.settings["device-duplicate.shared"] = {.value = "1", .source = "environment"};
  CHECK(only(file).device.is_shared);
}

TEST_CASE("a rank tells itself how it ended", "[tools]") {
  ProgressRecord thrown = note("exception", 40);
  thrown.what = "no memory";
  thrown.exception = "c10::Error";
  thrown.module_path = "head";
  const RankEnding ending = only(file_of(1, {thrown}));
  CHECK(ending.kind == EndKind::kException);
  CHECK(ending.exception == "no memory");
  CHECK(ending.exception_type == "c10::Error");
  CHECK(ending.module_path == "head");
  CHECK(ending.unix_ns == 40);
  CHECK(ending.step == 6);
  CHECK(ending.phase == Phase::kForward);
  CHECK(only(finished(file_of(1, {note("exit", 1)}), false)).kind == EndKind::kExit);
  CHECK(only(file_of(1, {note("signal", 1)}), {launch_of({.rank = 1, .signal = "SIGTERM"})}).kind ==
        EndKind::kSignal);
}

TEST_CASE("a signal that the program survived is not how it ended", "[tools]") {
  CHECK(only(finished(file_of(0, {note("signal", 1)}))).kind == EndKind::kClean);
  const RankEnding later = only(file_of(0, {note("signal", 1), note("exception", 2)}));
  CHECK(later.kind == EndKind::kException);
  const RankEnding asked =
      only(finished(file_of(0, {note("signal", 1), note("exit", 2)}), /*clean=*/false));
  CHECK(asked.kind == EndKind::kSignal);
  CHECK(only(finished(file_of(0, {note("signal", 9, Phase::kExit)}))).phase == Phase::kExit);
}

TEST_CASE("a rank without a note was killed, unless it still runs", "[tools]") {
  const RankEnding ending = only(file_of(0));
  CHECK(ending.kind == EndKind::kKilled);
  CHECK(ending.step == 5);
  CHECK_FALSE(ending.unix_ns);
  const TemporaryDir dir;
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  RankFile file = file_of(0);
  file.run.host = host.data();
  file.run.pid = ::getppid();
  const auto opened = JsonlWriter::open(dir.path(), file.run);
  file.path = opened.writer->path();
  CHECK(endings_of({file}, {}).ranks.empty());
}

TEST_CASE("the launcher tells what a killed rank could not", "[tools]") {
  const auto seen =
      launch_of({.rank = 0, .signal = "SIGKILL", .ended_unix_ns = 9, .stopped = true});
  const RankEnding ending = only(file_of(0), {seen});
  CHECK(ending.kind == EndKind::kKilled);
  CHECK(ending.signal == "SIGKILL");
  CHECK(ending.unix_ns == 9);
  CHECK(ending.noticed);
  CHECK(ending.stopped);
  CHECK(only(file_of(0), {launch_of({.rank = 0, .code = 4})}).kind == EndKind::kExit);
  CHECK(only(file_of(0), {launch_of({.rank = 0, .signal = "SIGKILL"}, "other")}).signal == "");
  const RankEnding late = only(finished(file_of(0)), {launch_of({.rank = 0, .signal = "SIGSEGV"})});
  CHECK(late.kind == EndKind::kSignal);
  CHECK(late.phase == Phase::kExit);
}

TEST_CASE("a rank that left no file is known from its launcher", "[tools]") {
  const RanksEndedEvent run =
      endings_of({finished(file_of(0))}, {launch_of({.rank = 1, .code = 1})});
  REQUIRE(run.ranks.size() == 2);
  CHECK(run.ranks[1].kind == EndKind::kExit);
  CHECK(run.world_size == 2);
}

}  // namespace ddpscope
