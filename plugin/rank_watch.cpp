#include "plugin/rank_watch.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "checks/call_text.h"
#include "exchange/ring_guard.h"
#include "exchange/ring_layout.h"
#include "model/clock.h"
#include "plugin/log.h"
#include "records/report_dir.h"

namespace ddpscope {
namespace {
using std::chrono::milliseconds;
constexpr auto kLookEvery = milliseconds(200);
constexpr auto kBeatEvery = milliseconds(1000);

std::uint32_t halved(std::uint32_t size) { return std::max(size / 2, 16u); }

/// As large as the setting `history` asks, but no more than half of what a rank may write.
RingSizes sizes_for(const Settings& settings) {
  RingSizes sizes;
  sizes.calls = static_cast<std::uint32_t>(std::min<std::int64_t>(settings.history, 1 << 22));
  const std::int64_t most = (settings.max_report_mb << 20) / 2;
  while (static_cast<std::int64_t>(ring_bytes(sizes)) > most) {
    sizes = {.calls = halved(sizes.calls),
             .digests = halved(sizes.digests),
             .kept_bytes = halved(sizes.kept_bytes),
             .recent_bytes = halved(sizes.recent_bytes)};
  }
  return sizes;
}

std::string hex_text(std::uint64_t number) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%llx", static_cast<unsigned long long>(number));
  return text.data();
}
}  // namespace

RankWatch::RankWatch(const RunRecord& run, const Settings& settings, Where where)
    : is_of_several_(run.world_size > 1),
      head_{.run_id = run.run_id, .rank = run.rank, .world_size = run.world_size, .pid = run.pid},
      sizes_(sizes_for(settings)),
      where_(where),
      hang_watch_(settings.hang_after_s * 1'000'000'000) {}

std::int64_t RankWatch::bytes() const noexcept {
  return is_of_several_ ? static_cast<std::int64_t>(ring_bytes(sizes_)) : 0;
}

std::string RankWatch::open(const std::string& dir) {
  if (!is_of_several_) return {};
  dir_ = dir;
  const OpenedDir opened = open_report_dir(dir);
  const std::string error =
      opened.error.empty() ? ring_.open(opened.fd.get(), head_, sizes_) : opened.error;
  if (error.empty()) {
    beat(0, /*ended=*/false);
    return {};
  }
  return error + ". This rank is compared with others by its rank file alone; training continues.";
}

std::optional<ProgressRecord> RankWatch::look(std::uint64_t events) {
  if (!is_of_several_) return std::nullopt;
  const auto now = Clock::now();
  if (now < next_look_) return std::nullopt;
  next_look_ = now + kLookEvery;
  const LoopPosition at = where_ == nullptr ? LoopPosition{} : where_();
  const std::uint64_t progress = events + open_calls().progress() + at.layers;
  if (now >= next_beat_) {
    next_beat_ = now + kBeatEvery;
    beat(progress, /*ended=*/false);
  }
  const auto stall = hang_watch_.look(open_calls(), progress, steady_ns());
  if (stall) return record_of(*stall);
  const auto still_ns = hang_watch_.stood_still(open_calls(), steady_ns());
  if (!still_ns || at.step == 0) return std::nullopt;  // before the first step it loads and builds
  return ProgressRecord{.step = at.step,
                        .phase = at.phase,
                        .reason = "stall",
                        .what = "has stood still for " + duration_words(*still_ns / kMsNs) +
                                ", outside of collectives",
                        .time_unix_ns = unix_ns()};
}

void RankWatch::end() { beat(progress_ + 1, /*ended=*/true); }

void RankWatch::beat(std::uint64_t progress, bool ended) {
  progress_ = progress;
  if (is_ring_mended() && !std::exchange(tells_cut_, true)) {
    log_warning(ring::file_name(head_.rank) +
                " was cut short while it was written: this rank is compared with others by its "
                "rank file alone; training continues.");
  }
  const LoopPosition at = where_ == nullptr ? LoopPosition{} : where_();
  const auto open = open_calls().oldest();
  ring_.beat({.unix_ns = unix_ns(),
              .step = at.step,
              .progress = progress,
              .module = open ? open->record.module : 0,
              .phase = at.phase,
              .ended = ended});
}

ProgressRecord RankWatch::record_of(const HangWatch::Stall& stall) const {
  const CallRecord& call = stall.call.record;
  const ComparedCall named{.record = call,
                           .owner = ring_.text(call.owner),
                           .module = ring_.text(call.module),
                           .dtype = ring_.text(call.dtype)};
  ProgressRecord record;
  record.step = call.step;
  record.phase = call.phase;
  record.reason = "stall";
  record.module_path = named.module;
  record.op = call_word(call.kind);
  record.time_unix_ns = unix_ns();
  record.what = (stall.call.waiting > 0 ? "has waited " : "has stood still for ") +
                duration_words(stall.waited_ns / kMsNs) + " in " + numbered_call(named) + " (" +
                named.dtype + "[" + std::to_string(call.elements) + "], group " +
                hex_text(call.group) + ")";
  if (stall.median_ns >= kMsNs) {
    record.what += "; the median of the calls before is " + duration_words(stall.median_ns / kMsNs);
  }
  return record;
}

}  // namespace ddpscope
