#include "plugin/worker.h"
#include "records/site_line.h"

namespace ddpscope {

// What this rank leaves to be compared with others.
RankDigest::Sinks Worker::digest_sinks() {
  return {.digest = [this](const StepDigest& digest) { ranks_.ring()->put(digest); },
          .blob = [this](const Blob& blob) { ranks_.ring()->put(blob); },
          .shown =
              [this](const StepDigest& digest) {
                if (writer_ != nullptr) writer_->write_digest(digest);
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

void Worker::settle() {
  const std::lock_guard lock(mutex_);
  if (!digest_ || judge_broke_) return;
  try {
    digest_->settle(judge_.state());
  } catch (...) {  // no memory: the next step is told
  }
}

}  // namespace ddpscope
