#include "plugin/step_compare.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "checks/check_table.h"
#include "checks/epoch_forecast.h"
#include "checks/ranks_judge.h"
#include "exchange/rank_compare.h"
#include "exchange/ring_steps.h"
#include "model/clock.h"
#include "model/fact_keys.h"
#include "plugin/log.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kLeastPauseNs = kSecondNs;
constexpr std::int64_t kOtherPauseNs = 5 * kSecondNs;  // of ranks that leave it to a lower one
constexpr std::int64_t kGraceNs = 10 * kSecondNs;      // a lower one may come later
// Of a core, with pauses in between.
constexpr std::int64_t kPausePerCpu = 300;
constexpr std::int64_t kMostCpuNs = kSecondNs / 2;
// Compared once more, so that a difference is told with what was before it.
constexpr std::int64_t kOverlapSteps = 256;

// How ranks end, or stand when they hang, is not known while they train.
constexpr std::array<std::string_view, 2> kOfTheEnd = {"rank-first-failure", "collective-hang"};
constexpr std::string_view kLag = "rank-step-lag";  // likewise, but for what it forecasts

struct Abandoned {};

bool is_image(const std::vector<RingImage>& images, std::int64_t rank) {
  return std::ranges::find(images, rank, &RingImage::rank) != images.end();
}

std::int64_t thread_cpu_ns() {
  struct timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kSecondNs + time.tv_nsec;
}

/// Once told, a check says the same again of every later step.
std::string key_of(const Finding& finding) {
  const auto field = std::ranges::find(finding.facts, fact::kField, &Fact::key);
  const auto* name =
      field == finding.facts.end() ? nullptr : std::get_if<std::string>(&field->value);
  return name == nullptr ? finding.id : finding.id + " " + *name;
}
bool is_said_while_training(const Finding& finding) {
  if (is_forecast(finding)) return true;
  return finding.severity != Severity::kNote && finding.id != kLag;
}
}  // namespace

std::set<std::string> checks_while_training(const RunRecord& run) {
  std::set<std::string> ids;
  for (const std::string& id : run.checks) {
    const CheckRow* row = find_check(id);
    const bool is_ours = row != nullptr && (is_over_ranks(*row) || is_also_over_ranks(*row));
    if (is_ours && !run.blocked.contains(id)) ids.insert(id);
  }
  for (const std::string_view id : kOfTheEnd) ids.erase(std::string(id));
  return ids;
}

Findings judge_while_training(TrainingRanks ranks) {
  CompareOptions options;
  options.world_size = ranks.world_size;
  options.now_unix_ns = unix_ns();
  options.progress = [&ranks](std::size_t, std::size_t) { ranks.after_each(); };
  RanksComparedEvent run = compare_ranks(ranks.rings, options);
  std::erase_if(run.cohorts, [](const Cohort& cohort) { return !cohort.averages; });
  RanksJudgeOptions judging{.enabled = ranks.checks, .of_ranks = {}};
  for (Finding& finding : ranks.own) judging.of_ranks.push_back(&finding);
  RanksJudgement judgement = judge_ranks(run, judging);
  std::erase_if(judgement.findings, [&ranks](const Finding& finding) {
    return !is_said_while_training(finding) || !ranks.checks.contains(finding.id);
  });
  return std::move(judgement.findings);
}

StepCompare::StepCompare(const RunRecord& run, const Settings& settings)
    : missing_(run, settings),
      rank_(run.rank),
      world_size_(run.world_size),
      every_(settings.exchange_every),
      run_id_(run.run_id),
      checks_(settings.exchange == Exchange::kOff ? std::set<std::string>()
                                                  : checks_while_training(run)) {}

void StepCompare::begin(const std::string& dir, std::int64_t now_ns) {
  dir_ = dir;
  begun_ns_ = now_ns;
  if (world_size_ > 1 && !checks_.empty()) due_ns_ = now_ns + kLeastPauseNs;
}

bool StepCompare::is_of_run(const RingReader& ring) const {
  return ring.head().run_id == run_id_ && ring.head().world_size == world_size_;
}

bool StepCompare::leads(std::int64_t now_ns) const {
  if (rank_ == 0) return true;
  if (now_ns - begun_ns_ < kGraceNs) return false;
  for (const RingPlace& place : list_rings(dir_)) {
    if (place.rank >= rank_) break;
    RingReader ring;
    if (ring.open(place.path).empty() && is_of_run(ring)) return false;
  }
  return true;
}

RingSet StepCompare::open(const Asked& asked) const {
  RingSet set = open_rings(list_rings(dir_), run_id_);
  std::erase_if(set.rings, [&](const RingReader& ring) {
    const std::int64_t rank = ring.head().rank;
    const bool is_other = asked.only_images && rank != rank_;
    return !is_of_run(ring) || is_other || is_image(asked.images, rank);
  });
  for (const RingImage& image : asked.images) {
    RingReader ring;
    if (!ring.open(image.file).empty() || !is_of_run(ring)) continue;
    set.rings.push_back(std::move(ring));
  }
  std::ranges::sort(set.rings, {}, [](const RingReader& ring) { return ring.head().rank; });
  return set;
}

// A ring may be left of an earlier run of one name, until the rank of this run makes its own. An
// image was sent to this process.
bool StepCompare::all_live(const RingSet& set, const Asked& asked) {
  bool all = true;
  for (const RingReader& ring : set.rings) {
    if (is_image(asked.images, ring.head().rank)) continue;
    Heart& heart = hearts_[ring.head().rank];
    const std::int64_t beat = ring.heartbeat().unix_ns;
    if (heart.pid != ring.head().pid) {
      heart = {.pid = ring.head().pid, .beat_unix_ns = beat};
    } else if (heart.beat_unix_ns != beat) {
      heart.moved = true;
    }
    all = all && heart.moved;
  }
  return all;
}

Findings StepCompare::look(std::int64_t now_ns, const Asked& asked) {
  due_ns_ = now_ns + kOtherPauseNs;
  if (asked.is_heard || !leads(now_ns)) return {};
  const std::int64_t begin = thread_cpu_ns();
  Findings found;
  try {
    compare(asked, now_ns, found);
  } catch (const Abandoned&) {
  }
  const std::int64_t spent = thread_cpu_ns() - begin;
  due_ns_ = now_ns + std::max(kPausePerCpu * spent, kLeastPauseNs);
  if (spent > kMostCpuNs) {
    due_ns_ = 0;
    log_warning(
        "comparing the ranks while they train takes too long; the merge compares them at the end");
  }
  return found;
}

void StepCompare::compare(const Asked& asked, std::int64_t now_ns, Findings& found) {
  const RingSet now = open(asked);
  if (auto missing = missing_.look(now, asked.way, now_ns)) {
    found.push_back(*std::move(missing));
  }
  const auto ranks = static_cast<std::int64_t>(now.rings.size());
  const bool others_come = !asked.images.empty() && now_ns - begun_ns_ < kGraceNs;
  if (ranks < (others_come ? world_size_ : 2) || !all_live(now, asked)) return;
  const std::int64_t last = last_common_step(now.rings);
  if (last < next_step_) return;
  // What is read from here on has all of those steps.
  RingSet set = open(asked);
  if (set.rings.size() != now.rings.size() || !all_live(set, asked)) return;
  for (RingReader& ring : set.rings) show_steps(ring, first_step_, last);
  const std::int64_t begin = thread_cpu_ns();
  const auto go_on = [&asked, begin] {
    if (asked.has_to_end() || thread_cpu_ns() - begin > kMostCpuNs) throw Abandoned{};
  };
  Findings sure = confirmed(judge_while_training({.rings = set.rings,
                                                  .world_size = world_size_,
                                                  .checks = checks_,
                                                  .own = asked.own(),
                                                  .after_each = go_on}));
  std::ranges::move(sure, std::back_inserter(found));
  next_step_ = next_compared_step(last, every_);
  if (pending_.empty()) first_step_ = std::max<std::int64_t>(last - kOverlapSteps, 0);
}

// More steps may show another cause, or that nothing was wrong.
Findings StepCompare::confirmed(const Findings& found) {
  Findings twice;
  std::set<std::string> pending;
  for (const Finding& finding : found) {
    if (said_.contains(key_of(finding))) continue;
    if (pending_.contains(finding.fingerprint)) {
      twice.push_back(finding);
    } else {
      pending.insert(finding.fingerprint);
    }
  }
  for (const Finding& finding : twice) said_.insert(key_of(finding));
  pending_ = std::move(pending);
  return twice;
}

}  // namespace ddpscope
