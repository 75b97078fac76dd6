#include "plugin/worker.h"

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

void Worker::settle() {
  const std::lock_guard lock(mutex_);
  if (!digest_ || judge_broke_) return;
  try {
    digest_->settle(judge_.state());
  } catch (...) {  // no memory: the next step is told
  }
}

}  // namespace ddpscope
