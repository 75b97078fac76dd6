#include "tools/rank_endings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "config/setting_types.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {
const LaunchedRank* launched_rank(const std::vector<LaunchRecord>& launches,
                                  const std::string& run_id, std::int64_t rank) {
  for (const LaunchRecord& launch : launches) {
    const auto found = std::ranges::find(launch.ranks, rank, &LaunchedRank::rank);
    if (launch.run_id == run_id && found != launch.ranks.end()) return &*found;
  }
  return nullptr;
}

/// The note that tells why the process ended: the last one, unless it only carries out what a
/// signal had asked for. Null where the rank went on after its last note.
const ProgressRecord* last_word(const RankFile& file) {
  const ProgressRecord* word = nullptr;
  for (const ProgressRecord& record : file.progress) {
    const bool is_end =
        record.reason == "signal" || record.reason == "exception" || record.reason == "exit";
    if (!is_end) continue;
    if (record.reason == "exit" && word != nullptr && asks_to_end(word->signal)) continue;
    word = &record;
  }
  const bool went_on =
      word != nullptr && file.summary && file.summary->clean_exit && word->phase != Phase::kExit;
  return went_on ? nullptr : word;
}

void take_note(RankEnding& ending, const ProgressRecord& note) {
  ending.kind = note.reason == "exception" ? EndKind::kException
                : note.reason == "exit"    ? EndKind::kExit
                                           : EndKind::kSignal;
  if (note.time_unix_ns > 0) ending.unix_ns = note.time_unix_ns;
  ending.step = note.step;
  ending.phase = note.phase;
  ending.model = note.model;
  ending.module_path = note.module_path;
  ending.op = note.op;
  ending.signal = note.signal;
  ending.code = note.code;
  if (note.reason != "exception") return;
  ending.exception_type = note.exception;
  ending.exception = note.what;
}

/// For a rank that left no note.
void take_launch(RankEnding& ending, const LaunchedRank& launched) {
  if (launched.signal.empty() && launched.code == 0) return;
  const bool killed = launched.signal == "SIGKILL";
  ending.kind = killed                    ? EndKind::kKilled
                : launched.signal.empty() ? EndKind::kExit
                                          : EndKind::kSignal;
  ending.signal = launched.signal;
  ending.code = launched.code;
  ending.noticed = true;
  if (launched.ended_unix_ns > 0) ending.unix_ns = launched.ended_unix_ns;
}

bool still_runs(const RankFile& file) {
  std::array<char, 256> host = {};
  ::gethostname(host.data(), host.size() - 1);
  return living_owner(file.path, host.data()).has_value();
}

std::optional<RankEnding> ending_of(const RankFile& file, const LaunchedRank* launched) {
  RankEnding ending{.rank = file.run.rank, .step = file.last_step, .host = file.run.host};
  if (launched != nullptr) ending.stopped = launched->stopped;
  const bool is_clean = file.summary && file.summary->clean_exit;
  if (is_clean) ending.step = file.summary->steps;
  if (const ProgressRecord* note = last_word(file)) {
    take_note(ending, *note);
    if (is_clean) ending.phase = Phase::kExit;
  } else if (is_clean) {
    // A code that `exit_code` asked for is no failure; a signal in a destructor is one.
    if (launched == nullptr || launched->signal.empty()) return ending;
    take_launch(ending, *launched);
    ending.phase = Phase::kExit;
  } else if (launched != nullptr) {
    take_launch(ending, *launched);
  } else if (file.ran_out || still_runs(file)) {
    return std::nullopt;
  } else {
    ending.kind = EndKind::kKilled;
  }
  return ending;
}
RankDevice device_of(const RunRecord& run) {
  if (!run.device_index.has_value()) return {};
  const auto shared = run.settings.find("device-duplicate.shared");
  const auto says =
      shared == run.settings.end() ? std::nullopt : Switch::parse(shared->second.value);
  return {.uuid = run.device,
          .index = *run.device_index,
          .visible_count = run.visible_devices,
          .mask = run.device_mask,
          .is_shared = says.value_or(false)};
}
}  // namespace

RanksEndedEvent endings_of(const std::vector<RankFile>& files,
                           const std::vector<LaunchRecord>& launches) {
  RanksEndedEvent run;
  if (files.empty()) return run;
  const std::string& run_id = files.front().run.run_id;
  std::map<std::int64_t, RankEnding> by_rank;
  for (const LaunchRecord& launch : launches) {
    if (launch.run_id != run_id) continue;
    for (const LaunchedRank& launched : launch.ranks) {
      RankEnding& ending = by_rank[launched.rank];
      ending.rank = launched.rank;
      ending.stopped = launched.stopped;
      take_launch(ending, launched);
    }
  }
  for (const RankFile& file : files) {
    run.world_size = std::max(run.world_size, file.run.world_size);
    auto ending = ending_of(file, launched_rank(launches, run_id, file.run.rank));
    if (ending) ending->device = device_of(file.run);
    if (ending) by_rank.insert_or_assign(file.run.rank, std::move(*ending));
  }
  for (auto& [rank, ending] : by_rank) run.ranks.push_back(std::move(ending));
  return run;
}

}  // namespace ddpscope
