#include <algorithm>
#include <string_view>

#include "checks/spread_nonfinite.h"
#include "exchange/nonfinite_compare.h"
#include "model/clock.h"
#include "model/fact_keys.h"
#include "plugin/log.h"
#include "plugin/worker.h"
#include "records/site_line.h"

namespace ddpscope {
namespace {
constexpr std::string_view kHang = "collective-hang";
}

// What this rank leaves to be compared with others.
RankDigest::Sinks Worker::digest_sinks() {
  return {.digest = [this](const StepDigest& digest) { ranks_.ring()->put(digest); },
          .blob = [this](const Blob& blob) { ranks_.ring()->put(blob); },
          .shown =
              [this](const StepDigest& digest) {
                if (writer_ != nullptr) writer_->write_digest(digest);
              },
          .lone =
              [this](const LoneSteps& lone) {
                ranks_.ring()->put(lone);
                lone_steps.store(lone.steps, std::memory_order_relaxed);
              }};
}

// Where a call was made, once for each place: what compares ranks cannot ask this process.
void Worker::tell_site(const CollectiveEvent& event) {
  constexpr std::size_t kMaxSites = 256;
  if (event.stack == 0 || options_.judge.sites == nullptr || ranks_.ring() == nullptr) return;
  if (told_sites_.size() == kMaxSites || !told_sites_.insert(event.stack).second) return;
  Site site = options_.judge.sites->site(event.stack);
  site.role = "called";
  const std::string line = line_of_json(site);
  ranks_.ring()->put(
      {.kind = BlobKind::kSite, .number = event.stack, .step = event.at.step, .bytes = line});
}

// Which rank had it first is told by what each leaves.
void Worker::leave_spreading(const Finding& finding) {
  const bool is_own = finding.rank == options_.run.rank;
  if (!is_own || !spreads_over_ranks(finding) || ranks_.ring() == nullptr) return;
  const auto count_of = [&finding](std::string_view key) {
    const FactValue* value = find_fact(finding, key);
    const auto* count = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
    return count == nullptr ? 0 : *count;
  };
  const bool is_deep = !finding.module_path.empty() && !finding.subject.empty();
  const std::string bytes =
      encode({.nan_count = count_of(fact::kNanCount),
              .inf_count = count_of(fact::kInfCount),
              .model = finding.model,
              .path = finding.module_path + (is_deep ? "." : "") + finding.subject,
              .what = finding.what});
  ranks_.ring()->put({.kind = BlobKind::kNonfinite, .step = finding.step, .bytes = bytes});
}

bool Worker::start_exchange() {
  const Settings& settings = options_.settings;
  const StorePlace place{.rank = options_.run.rank,
                         .run_id = options_.run.run_id,
                         .dir = ranks_.dir(),
                         .timeout_ms = settings.exchange_timeout_ms};
  if (place.dir.empty() || !options_.store.open) return false;
  return exchange_.start({.rank = place.rank,
                          .world_size = options_.run.world_size,
                          .run_id = place.run_id,
                          .dir = place.dir,
                          .every = settings.exchange_every,
                          .timeout_ms = place.timeout_ms,
                          .also_in_folder = settings.exchange == Exchange::kStore},
                         [open = options_.store.open, place] { return open(place); });
}

void Worker::compare_steps() {
  const std::int64_t now_ns = steady_ns();
  const std::string trouble = exchange_.trouble(now_ns);
  if (!trouble.empty()) log_warning(trouble);
  if (!step_compare_.is_due(now_ns) || is_behind()) return;
  const bool is_sent_all = options_.settings.exchange == Exchange::kStore && options_.run.rank == 0;
  const StepCompare::Asked asked{
      .own =
          [this] {
            const std::lock_guard lock(mutex_);
            return judge_.findings();
          },
      .has_to_end = [this] { return leaves_.load(std::memory_order_relaxed) || is_behind(); },
      .images = exchange_.images(),
      .only_images = is_sent_all && exchange_.is_live(),
      .is_heard = exchange_.is_heard(),
      .way = way_of_records()};
  tell_over_ranks(step_compare_.look(now_ns, asked));
}

MissingRanks::Way Worker::way_of_records() const {
  using Way = MissingRanks::Way;
  const bool is_one_host = options_.local_ranks == options_.run.world_size;
  const bool is_sent = options_.settings.exchange == Exchange::kStore;
  if (is_one_host && !is_sent && !options_.has_own_folder) return Way::kFolder;
  const bool all_fit = ranks_.bytes() * options_.run.world_size <= kMostImagesBytes;
  return exchange_.is_live() && all_fit ? Way::kStore : Way::kNotKnown;
}

// Events wait, and would be lost if many more came.
bool Worker::is_behind() const {
  const std::uint64_t taken = queue_.taken_count();
  return queue_.put_count() > taken + kQueueEvents / 4;
}

// Who looks at the console of a job that hangs sees that it still does, and where the ranks are
// now.
void Worker::tell_again(Finding& told, Finding&& now) {
  if (told.what == now.what) return;
  told = std::move(now);
  found(told, /*is_first=*/false);
  print(told, /*is_first=*/true);
}

void Worker::tell_over_ranks(Findings&& findings) {
  if (findings.empty()) return;
  const std::lock_guard lock(mutex_);
  for (Finding& finding : findings) {
    const auto told = std::ranges::find(over_ranks_, finding.fingerprint, &Finding::fingerprint);
    if (told != over_ranks_.end()) {
      if (finding.id == kHang) tell_again(*told, std::move(finding));
      continue;
    }
    found(finding, /*is_first=*/true);
    over_ranks_.push_back(std::move(finding));
  }
  if (writer_ != nullptr) writer_->sync();
}

Findings Worker::all_findings() const {
  Findings all = judge_.findings();
  all.insert(all.end(), over_ranks_.begin(), over_ranks_.end());
  return all;
}

void Worker::settle() {
  const std::lock_guard lock(mutex_);
  if (!digest_ || judge_broke_) return;
  try {
    digest_->settle(judge_.state());
  } catch (...) {  // no memory: the next step is told
  }
}

}  // namespace ddpscope
