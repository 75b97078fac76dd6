#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "records/utf8.h"
#include "records/words.h"
#include "report/report_writer.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxStepEvents = 100'000;
constexpr std::size_t kMaxCallEvents = 100'000;
enum Track { kSteps = 1, kCalls = 2, kFindings = 3 };

std::string quoted_json(std::string_view text) { return nlohmann::json(valid_utf8(text)).dump(); }

/// Of all ranks; each shows every so manieth of its steps and calls.
struct Strides {
  std::size_t steps = 1;
  std::size_t calls = 1;
};

Strides strides_of(const MergedReport& report) {
  std::size_t steps = 0;
  std::size_t calls = 0;
  for (const auto& rank : report.ranks) {
    steps += rank.sampled_steps.size();
    calls += rank.calls.size();
  }
  return {.steps = steps / kMaxStepEvents + 1, .calls = calls / kMaxCallEvents + 1};
}

double duration_us(const StepRecord& step) {
  return std::isfinite(step.wall_ms) ? std::clamp(step.wall_ms, 0.0, 1e12) * 1000 : 0;
}

/// The earliest time of all ranks; 0 where none is known.
std::int64_t begin_of(const MergedReport& report) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  const auto saw = [&begin](std::int64_t unix_ns, double before_us) {
    if (unix_ns <= 0) return;
    const auto before_ns = static_cast<std::int64_t>(std::min(before_us * 1000, 1e17));
    begin = std::min(begin, std::max<std::int64_t>(unix_ns - before_ns, 0));
  };
  for (const auto& rank : report.ranks) {
    for (const auto& step : rank.sampled_steps) saw(step.time_unix_ns, duration_us(step));
    for (const auto& call : rank.calls) saw(call.unix_ns, 0);
  }
  return begin == std::numeric_limits<std::int64_t>::max() ? 0 : begin;
}

class TraceText {
 public:
  TraceText(std::int64_t begin_ns, Strides strides) : begin_ns_(begin_ns), strides_(strides) {}

  void add_rank(const RankState& rank) {
    const std::int64_t number = rank.run.rank;
    name(number, 0, "process_name", fmt::format("rank {}", number));
    put(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", number,
        number);
    name(number, kSteps, "thread_name", "steps");
    if (!rank.calls.empty()) name(number, kCalls, "thread_name", "collectives");
    ends_.clear();
    rank_ = number;
    add_steps(rank);
    for (std::size_t i = 0; i < rank.calls.size(); i += strides_.calls) {
      add_call(number, rank.calls[i]);
    }
  }

  /// At the end of its step where its rank was added last, else at the begin.
  void add_finding(const Finding& finding) {
    if (finding.rank != rank_) ends_.clear();
    const auto at = std::ranges::lower_bound(ends_, finding.step, {}, &End::step);
    const double time = at != ends_.end() ? at->us : ends_.empty() ? 0 : ends_.back().us;
    put(R"({{"ph":"i","s":"p","pid":{},"tid":{},"ts":{:.3f},"cat":"{}","name":{},"args":)"
        R"({{"step":{},"what":{},"fingerprint":{}}}}})",
        finding.rank, int{kFindings}, time, word(finding.severity), quoted_json(finding.id),
        finding.step, quoted_json(finding.what), quoted_json(finding.fingerprint));
  }

  std::string finish(const std::string& run_id) {
    return fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"run_id\":{},\"begin_unix_ns\":\"{}\"}},\n"
        "\"traceEvents\":[\n{}\n]}}\n",
        quoted_json(run_id), begin_ns_, events_);
  }

 private:
  struct End {
    std::int64_t step = 0;
    double us = 0;
  };

  template <typename... Values>
  void put(fmt::format_string<Values...> format, Values&&... values) {
    if (!events_.empty()) events_ += ",\n";
    fmt::format_to(std::back_inserter(events_), format, std::forward<Values>(values)...);
  }

  void name(std::int64_t rank, int track, std::string_view what, const std::string& text) {
    put(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})", rank, track, what,
        quoted_json(text));
  }

  double us_of(std::int64_t unix_ns) const {
    return static_cast<double>(unix_ns - begin_ns_) / 1000.0;
  }

  /// A step without a time follows the one before it.
  void add_steps(const RankState& rank) {
    double last_us = 0;
    for (std::size_t i = 0; i < rank.sampled_steps.size(); ++i) {
      const StepRecord& step = rank.sampled_steps[i];
      const double duration = duration_us(step);
      last_us = step.time_unix_ns > 0 ? us_of(step.time_unix_ns) : last_us + duration;
      ends_.push_back({step.step, last_us});
      if (i % strides_.steps != 0) continue;
      const double begin = std::max(last_us - duration, 0.0);
      put(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":"step",)"
          R"("name":"step {}"}})",
          rank.run.rank, int{kSteps}, begin, duration, step.step);
      counter(rank.run.rank, begin, "step time (ms)", duration / 1000);
      const auto known = {std::pair{"loss", step.loss}, {"norm of gradients", step.gradient_norm}};
      for (const auto& [what, value] : known) {
        if (value && std::isfinite(*value)) counter(rank.run.rank, begin, what, *value);
      }
    }
    std::ranges::stable_sort(ends_, {}, &End::step);
  }

  void counter(std::int64_t rank, double time, std::string_view what, double value) {
    put(R"({{"ph":"C","pid":{},"ts":{:.3f},"name":"{}","args":{{"value":{:.6g}}}}})", rank, time,
        what, value);
  }

  void add_call(std::int64_t rank, const CallSpan& call) {
    if (call.unix_ns <= 0) return;
    put(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{},"cat":"collective","name":{},"args":)"
        R"({{"step":{},"ended":{}}}}})",
        rank, int{kCalls}, us_of(call.unix_ns), std::max<std::int64_t>(call.waited_us, 0),
        quoted_json(call.name), call.step, call.has_ended);
  }

  std::int64_t begin_ns_;
  Strides strides_;
  std::string events_;
  std::int64_t rank_ = -1;
  std::vector<End> ends_;
};
}  // namespace

std::string render_trace(const MergedReport& report, const RenderOptions&) {
  std::vector<const Finding*> by_rank;
  for (const Finding& finding : report.findings) {
    if (!finding.suppressed) by_rank.push_back(&finding);
  }
  std::ranges::stable_sort(by_rank, {}, &Finding::rank);
  TraceText trace(begin_of(report), strides_of(report));
  auto next = by_rank.begin();
  const auto add_findings_up_to = [&](std::int64_t rank) {
    for (; next != by_rank.end() && (*next)->rank <= rank; ++next) trace.add_finding(**next);
  };
  for (const RankState& rank : report.ranks) {
    add_findings_up_to(rank.run.rank - 1);
    trace.add_rank(rank);
    add_findings_up_to(rank.run.rank);
  }
  add_findings_up_to(kMaxRank);
  return trace.finish(report.run_id);
}

}  // namespace ddpscope
