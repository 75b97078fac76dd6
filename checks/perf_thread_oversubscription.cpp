#include <fmt/format.h>

#include <memory>
#include <optional>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::int64_t kFirstCycle = 3;
constexpr std::int64_t kEvery = 1000;
constexpr double kMaxRatio = 1.5;
constexpr double kMinMeasuredMs = 500;
constexpr double kIdlePerSecond = 100;
constexpr double kBusyPerSecond = 500;

/// perf-thread-oversubscription; docs/checks/perf-thread-oversubscription.md
class PerfThreadOversubscription final : public Check {
 public:
  void on_host_counts(const HostCountsEvent& event, const RunState&, Findings&) override {
    if (!event.preemptions.has_value()) return;
    if (!since_.has_value()) since_ = event;
    const double ms = event.uptime_ms - since_->uptime_ms;
    if (ms < kMinMeasuredMs) return;
    const auto preempted = static_cast<double>(*event.preemptions - *since_->preemptions);
    per_second_ = 1000 * preempted / ms;
    since_ = event;
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle < next_cycle_ || event.compute_threads <= 0) return;
    const bool is_measured = per_second_.has_value() || !state.host().preemptions.has_value();
    if (!is_measured) return;
    next_cycle_ = event.at.cycle - event.at.cycle % kEvery + kEvery;
    judge(event, state, findings);
  }

 private:
  void judge(const CycleEndEvent& event, const RunState& state, Findings& findings) const {
    const HostCountsEvent& host = state.host();
    if (host.cores <= 0 || host.threads_placed) return;
    const std::int64_t workers = event.loader_threads;
    const std::int64_t threads = event.compute_threads + host.interop_threads;
    const std::int64_t all = host.local_ranks * (threads + workers);
    if (static_cast<double>(all) <= kMaxRatio * static_cast<double>(host.cores)) return;
    if (per_second_.value_or(kIdlePerSecond) < kIdlePerSecond) return;

    Finding finding;
    // With one thread each nothing can be limited: there are more ranks than cores.
    const bool is_limited = threads == 1 && workers == 0;
    finding.severity = is_limited ? Severity::kNote : Severity::kWarning;
    const bool is_confirmed = per_second_.value_or(0) > kBusyPerSecond;
    finding.evidence_status =
        is_confirmed ? EvidenceStatus::kSupported : EvidenceStatus::kHypothesis;
    if (!per_second_.has_value()) finding.confidence = Confidence::kMedium;
    finding.step = event.at.step;
    finding.phase = Phase::kForward;
    if (const ModelState* model = state.first_model()) finding.model = model->label;
    finding.what = fmt::format(
        "{} × {}{} on {}", counted(host.local_ranks, "rank"), counted(threads, "thread"),
        workers > 0 ? fmt::format(" and {}", counted(workers, "loader thread")) : "",
        counted(host.cores, "usable core"));
    explain(threads, workers, host, finding);
    finding.facts = {{fact::kLocalRanksCount, host.local_ranks},
                     {fact::kThreadsCount, threads},
                     {fact::kWorkersCount, workers},
                     {fact::kCoresCount, host.cores}};
    if (per_second_) finding.facts.push_back({fact::kSwitchesPerS, *per_second_});
    findings.push_back(std::move(finding));
  }

  void explain(std::int64_t threads, std::int64_t workers, const HostCountsEvent& host,
               Finding& finding) const {
    const std::int64_t each = std::max<std::int64_t>(host.cores / host.local_ranks, 1);
    if (threads == 1 && workers == 0) {
      finding.why = "there are more ranks than cores";
      finding.fixes = {
          {fmt::format("{} on this host", counted(host.cores, "rank")), kNeedsDecision}};
    } else {
      finding.why = host.local_ranks > 1 ? "the ranks do not limit their threads to their share"
                                         : "more threads compute than cores can run";
      if (threads > each) {
        finding.fixes.push_back({fmt::format("at::set_num_threads({}) before the first operator{}",
                                             each, host.local_ranks > 1 ? " of each rank" : ""),
                                 kLikely});
      }
      if (workers > 0) finding.fixes.push_back({"fewer loader workers", kLikely});
    }
    if (per_second_) {
      finding.why += fmt::format(
          "; {:.0f} times per second a thread has to leave its core to "
          "another",
          *per_second_);
    }
  }

  std::int64_t next_cycle_ = kFirstCycle;
  std::optional<HostCountsEvent> since_;
  std::optional<double> per_second_;
};
}  // namespace

std::unique_ptr<Check> make_perf_thread_oversubscription() {
  return std::make_unique<PerfThreadOversubscription>();
}

}  // namespace ddpscope
