// How long the rings of many ranks take to be compared, and in how much memory: `rank_merge FOLDER
// [ranks] [calls] [records]` writes them into FOLDER where they are absent, one rank with another
// call, beside rank files with so many records of steps, and compares them. `ddpscope merge FOLDER`
// then does all of it as a user would.
#include <fcntl.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "checks/check_table.h"
#include "checks/ranks_judge.h"
#include "exchange/rank_compare.h"
#include "exchange/ring_set.h"
#include "records/file_descriptor.h"
#include "records/jsonl_writer.h"

namespace ddpscope {
namespace {
constexpr const char* kRunId = "rank_merge";
constexpr int kCallsPerStep = 25;

/// Bytes that hold as many calls and no more.
RingSizes sizes_for(std::uint32_t calls) {
  return {.calls = calls,
          .digests = calls / kCallsPerStep + 1,
          .kept_bytes = 1 << 12,
          .recent_bytes = 1 << 10};
}

bool write_ring(const std::string& dir, std::int64_t rank, std::int64_t ranks,
                std::uint32_t calls) {
  const FileDescriptor folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RingWriter writer;
  const RingHead head{.run_id = kRunId, .rank = rank, .world_size = ranks, .pid = 1};
  if (!writer.open(folder.get(), head, sizes_for(calls)).empty()) return false;
  const bool is_odd = rank == ranks / 2;
  for (std::uint32_t i = 0; i < calls; ++i) {
    const std::uint32_t tensor = i % kCallsPerStep;
    const bool differs = is_odd && i == calls * 9 / 10;
    CallRecord call{.seq = i + 1,
                    .group = group_key(std::uint64_t{1} << 40, ranks),
                    .unix_ns = i * std::int64_t{1000},
                    .elements = differs ? 7 : 1024 + tensor,
                    .step = static_cast<std::int32_t>(i / kCallsPerStep + 1),
                    .reduce = ReduceKind::kSum};
    call.owner = writer.name("layer" + std::to_string(tensor) + ".weight.grad");
    call.dtype = writer.name("float32");
    writer.ended(writer.issued(call), 100, CallState::kCompleted);
    if (tensor + 1 == kCallsPerStep) {
      writer.put(StepDigest{.step = call.step, .structure = 1, .gradients = 2});
    }
  }
  return true;
}

bool write_records(const std::string& dir, std::int64_t rank, std::int64_t ranks,
                   std::int64_t records) {
  RunRecord run;
  run.run_id = kRunId;
  run.rank = rank;
  run.world_size = ranks;
  run.host = "node" + std::to_string(rank / 8);
  run.started = "2030-01-01T00:00:00Z";
  for (const CheckRow& row : check_table()) run.checks.emplace_back(row.id);
  const auto opened = JsonlWriter::open(dir, run);
  if (opened.writer == nullptr) return false;
  for (std::int64_t step = 1; step <= records; ++step) {
    opened.writer->write_step({.step = step, .wall_ms = 12.5, .overhead_us = 40});
  }
  return opened.writer->write_summary({.steps = records});
}

int write_all(const std::string& dir, std::int64_t ranks, std::uint32_t calls,
              std::int64_t records) {
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (write_records(dir, rank, ranks, records) && write_ring(dir, rank, ranks, calls)) continue;
    std::fprintf(stderr, "rank_merge: cannot write into %s\n", dir.c_str());
    return 1;
  }
  std::printf("%lld ranks written; run again to measure\n", static_cast<long long>(ranks));
  return 0;
}

int compare_all(const std::string& dir) {
  const auto begin = std::chrono::steady_clock::now();
  const RingSet set = open_rings(list_rings(dir), kRunId);
  CompareOptions options;
  options.world_size = static_cast<std::int64_t>(set.rings.size());
  const RanksComparedEvent compared = compare_ranks(set.rings, options);
  const RanksJudgement judgement = judge_ranks(compared, {.enabled = {"collective-mismatch"}});
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("%zu ranks, %lld calls, %lld digests: %.2f s, %.0f MB at most\n", set.rings.size(),
              static_cast<long long>(compared.calls), static_cast<long long>(compared.digests),
              spent.count(), static_cast<double>(usage.ru_maxrss) / 1024);
  for (const Finding& finding : judgement.findings) std::printf("%s\n", finding.what.c_str());
  return 0;
}
}  // namespace
}  // namespace ddpscope

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: rank_merge FOLDER [ranks] [calls] [records]\n");
    return 2;
  }
  const std::int64_t ranks = argc > 2 ? std::atoll(argv[2]) : 1000;
  const auto calls = static_cast<std::uint32_t>(argc > 3 ? std::atoll(argv[3]) : 10'000);
  const std::int64_t records = argc > 4 ? std::atoll(argv[4]) : 1000;
  if (!ddpscope::list_rings(argv[1]).empty()) return ddpscope::compare_all(argv[1]);
  return ddpscope::write_all(argv[1], ranks, calls, records);
}
