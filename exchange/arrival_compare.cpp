#include "exchange/arrival_compare.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "exchange/batch_sizes.h"
#include "exchange/call_blocks.h"
#include "exchange/ring_steps.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFirstSteps = 10;
constexpr std::size_t kWindow = 50;
constexpr std::size_t kMostlyLate = 40;  // of a window
constexpr double kLeastLostMs = 2;
constexpr double kLeastLostShare = 0.05;  // of the step
constexpr std::size_t kMaxEntries = 1 << 20;
constexpr std::int64_t kLongestNs = std::int64_t{3600} * 1'000'000'000;
constexpr std::size_t kTrendParts = 5;
constexpr std::array<const char*, 4> kParts = {"optimizer", "data", "forward", "backward"};

/// What a rank did in one step.
struct RankStep {
  std::uint64_t group = 0;  ///< of its first call; 0: there was none
  std::uint64_t seq = 0;
  std::int64_t first_ns = 0;  ///< issue of its first call
  std::int64_t last_ns = 0;   ///< end of its last one
  double messages_ms = 0;     ///< waits for single ranks before the first call, after those before
  std::int64_t ended_ns = 0;  ///< of the step; 0: not known
  double wait_ms = 0;
  double forward_ms = 0;
  bool batch_seen = false;
};
using RankSteps = std::map<std::int64_t, RankStep>;

/// The way of one rank to its first call, in milliseconds.
struct Way {
  double whole = 0;
  double own = 0;  ///< without what it waited for single ranks, as another stage
  std::array<double, kParts.size()> parts = {};
  bool parts_known = false;
  bool batch_seen = false;
};

struct StepWays {
  std::int64_t step = 0;
  double step_ms = 0;
  std::vector<Way> ways;  ///< by rank
};

/// A file may say any number: what is no time of a step is none.
std::optional<double> ms_between(std::int64_t from_ns, std::int64_t to_ns) {
  if (from_ns <= 0 || to_ns < from_ns || to_ns - from_ns > kLongestNs) return std::nullopt;
  return static_cast<double>(to_ns - from_ns) / 1e6;
}

void add(const CallRecord& call, double messages_ms, RankSteps& steps) {
  RankStep& step = steps[call.step];
  if (step.group == 0) {
    step.messages_ms = messages_ms;
    step.group = call.group;
    step.seq = call.seq;
    step.first_ns = call.unix_ns;
  }
  constexpr std::int64_t kUsNs = 1000;
  const std::int64_t waited_ns = kUsNs * std::int64_t{call.waited_us};
  step.last_ns = std::max(step.last_ns, std::min(call.unix_ns, INT64_MAX - waited_ns) + waited_ns);
}

RankSteps read_steps(const RingReader& ring, std::int64_t after) {
  RankSteps steps;
  for (auto place = ring.first_digest(); place < ring.digest_count(); ++place) {
    const auto digest = ring.digest(place);
    if (!digest || digest->step < after) continue;
    RankStep& step = steps[digest->step];
    step.ended_ns = digest->unix_ns;
    step.wait_ms = digest->wait_us / 1e3;
    step.forward_ms = digest->forward_us / 1e3;
    step.batch_seen = digest->batch != 0;
  }
  double messages_ms = 0;
  for (auto place = ring.first_call(); place < ring.call_count(); ++place) {
    const auto call = ring.call(place);
    if (!call || call->state != CallState::kCompleted) continue;
    if (call->kind == CollectiveKind::kSend || call->kind == CollectiveKind::kReceive) {
      messages_ms += call->waited_us / 1e3;
    } else if (is_of_group(*call)) {
      if (steps.contains(call->step)) add(*call, messages_ms, steps);
      messages_ms = 0;
    }
  }
  return steps;
}

std::optional<Way> way_between(const RankStep& before, const RankStep& step) {
  const auto whole = ms_between(before.last_ns, step.first_ns);
  if (!whole) return std::nullopt;
  Way way{.whole = *whole, .own = std::max(*whole - step.messages_ms, 0.0)};
  way.batch_seen = step.batch_seen;
  way.parts[0] = ms_between(before.last_ns, before.ended_ns).value_or(0);
  way.parts[1] = step.wait_ms;
  way.parts[2] = step.forward_ms;
  way.parts[3] = std::max(way.own - way.parts[0] - way.parts[1] - way.parts[2], 0.0);
  way.parts_known = step.wait_ms > 0 && step.forward_ms > 0;
  return way;
}

class ArrivalComparison {
 public:
  ArrivalComparison(const RingList& rings, Cohort& cohort) : rings_(rings), cohort_(cohort) {
    std::int64_t last = INT64_MAX;
    for (const RingReader* ring : rings) last = std::min(last, last_ended_step(*ring));
    const auto kept = static_cast<std::int64_t>(kMaxEntries / rings.size());
    const std::int64_t after = std::max(std::max<std::int64_t>(last, 0) - kept, kFirstSteps);
    for (const RingReader* ring : rings) steps_.push_back(read_steps(*ring, after));
  }

  void run() {
    std::size_t rows = 0;
    for (const auto& [step, first] : steps_.front()) {
      auto row = row_of(step);
      if (!row) continue;
      window_.push_back(*std::move(row));
      if (window_.size() > kWindow) window_.pop_front();
      if (++rows % kWindow == 0 && judge()) return;
    }
    if (rows > kWindow) judge();
  }

 private:
  std::optional<StepWays> row_of(std::int64_t number) const {
    StepWays row{.step = number};
    const RankStep* first = nullptr;
    for (const RankSteps& steps : steps_) {
      const auto step = steps.find(number);
      const auto before = steps.find(number - 1);
      if (step == steps.end() || before == steps.end()) return std::nullopt;
      if (first == nullptr) first = &step->second;
      const bool is_same = step->second.group == first->group && step->second.seq == first->seq;
      auto way = way_between(before->second, step->second);
      if (first->group == 0 || !is_same || !way) return std::nullopt;
      row.ways.push_back(*way);
      row.step_ms = std::max(
          row.step_ms, ms_between(before->second.ended_ns, step->second.ended_ns).value_or(0));
    }
    return row;
  }

  template <class Value>
  double of_others(std::size_t rank, Value&& value) const {
    std::vector<double> values;
    for (std::size_t other = 0; other < rings_.size(); ++other) {
      if (other != rank) values.push_back(value(other));
    }
    return median(std::move(values));
  }

  /// What it waited for single ranks is no time of its own, and whoever waits less is not late.
  double lost_by(std::size_t rank, const StepWays& row) const {
    const auto lost = [&](double Way::*way) {
      return row.ways[rank].*way -
             of_others(rank, [&row, way](std::size_t other) { return row.ways[other].*way; });
    };
    return std::min(lost(&Way::whole), lost(&Way::own));
  }

  static bool is_late(double lost_ms, const StepWays& row) {
    return lost_ms > kLeastLostMs && lost_ms > kLeastLostShare * row.step_ms;
  }

  /// Whether a rank is told.
  bool judge() {
    std::map<std::size_t, std::size_t> late;
    for (const StepWays& row : window_) {
      const auto last = std::ranges::max_element(row.ways, {}, &Way::whole) - row.ways.begin();
      const auto rank = static_cast<std::size_t>(last);
      if (is_late(lost_by(rank, row), row)) ++late[rank];
    }
    for (const auto& [rank, count] : late) {
      if (count < kMostlyLate) continue;
      tell(rank, count);
      return true;
    }
    return false;
  }

  void tell(std::size_t rank, std::size_t late) {
    std::vector<double> lost;
    std::vector<double> steps;
    std::size_t known = 0;
    for (const StepWays& row : window_) {
      lost.push_back(lost_by(rank, row));
      steps.push_back(row.step_ms);
      known += std::ranges::all_of(row.ways, &Way::parts_known);
    }
    Straggler told{.rank = rings_[rank]->head().rank,
                   .step = window_.back().step,
                   .steps = static_cast<std::int64_t>(window_.size()),
                   .late = static_cast<std::int64_t>(late),
                   .lost_ms = median(lost),
                   .step_ms = median(std::move(steps))};
    for (std::size_t part = 0; part < kTrendParts; ++part) {
      const auto at = [&](std::size_t of) {
        return lost.begin() + static_cast<std::ptrdiff_t>(of * lost.size() / kTrendParts);
      };
      told.lost_per_part.push_back(median(std::vector<double>(at(part), at(part + 1))));
    }
    told.batch_ratio = batch_ratio(rank);
    if (2 * known > window_.size()) add_part(rank, told);
    cohort_.stragglers.push_back(std::move(told));
  }

  double part_of(std::size_t rank, std::size_t part) const {
    std::vector<double> values;
    for (const StepWays& row : window_) {
      if (std::ranges::all_of(row.ways, &Way::parts_known)) {
        values.push_back(row.ways[rank].parts[part]);
      }
    }
    return median(std::move(values));
  }

  /// 0 where the batches of most steps are not known.
  double batch_ratio(std::size_t rank) const {
    std::vector<BatchSizes> batches;
    for (const RingReader* ring : rings_) batches.emplace_back(*ring);
    std::vector<double> ratios;
    for (const StepWays& row : window_) {
      if (!std::ranges::all_of(row.ways, &Way::batch_seen)) continue;
      const double others =
          of_others(rank, [&](std::size_t other) { return batches[other].at(row.step).elements; });
      if (others > 0) ratios.push_back(batches[rank].at(row.step).elements / others);
    }
    return 2 * ratios.size() > window_.size() ? median(std::move(ratios)) : 0;
  }

  void add_part(std::size_t rank, Straggler& told) const {
    double most = 0;
    for (std::size_t part = 0; part < kParts.size(); ++part) {
      const double own = part_of(rank, part);
      const double others =
          of_others(rank, [this, part](std::size_t other) { return part_of(other, part); });
      if (own - others <= most) continue;
      most = own - others;
      told.phase = kParts[part];
      told.phase_ms = own;
      told.others_ms = others;
    }
  }

  const RingList& rings_;
  Cohort& cohort_;
  std::vector<RankSteps> steps_;
  std::deque<StepWays> window_;
};
}  // namespace

void compare_arrivals(const RingList& rings, Cohort& cohort) {
  if (rings.size() < 2 || !cohort.averages) return;
  ArrivalComparison(rings, cohort).run();
}

}  // namespace ddpscope
