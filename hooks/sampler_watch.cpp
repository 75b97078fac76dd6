#include "hooks/sampler_watch.h"

#include <torch/data/samplers/distributed.h>
#include <torch/data/samplers/random.h>
#include <torch/data/samplers/sequential.h>

#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "hooks/capture.h"
#include "hooks/interposed.h"
#include "hooks/loader_watch.h"

namespace ddpscope {
namespace {
using Rows = std::optional<std::vector<std::size_t>>;
constexpr std::size_t kMaxRows = 1 << 20;  // of a larger epoch the end is far away
constexpr int kMaxTellings = 16;

/// The sampler that was asked last, and where it stands then: another may lie there later.
struct Asked {
  const void* sampler = nullptr;
  std::size_t next = 0;
};

std::mutex mutex;
Asked last;
int told = 0;

/// Whether it goes on from where it was asked before.
bool goes_on(const void* sampler, std::size_t index, std::size_t rows) {
  const bool same = last.sampler == sampler && last.next == index;
  last = {.sampler = sampler, .next = index + rows};
  return same;
}

/// A copy of such a sampler copies the indices of all ranks.
template <class Sampler>
struct SizeOf : Sampler {
  static std::size_t in(const Sampler& sampler) { return sampler.*&SizeOf::size_; }
};

template <class Sampler>
bool is_brief_to_copy(const Sampler& sampler) {
  if constexpr (std::is_base_of_v<torch::data::samplers::DistributedSampler<>, Sampler>) {
    return SizeOf<Sampler>::in(sampler) < kMaxRows;
  } else {
    return true;
  }
}

template <class Sampler>
struct NextBatch {
  using Hooked = Interposed<NextBatch, Rows(Sampler*, std::size_t)>;

  static Rows call(Sampler* self, std::size_t rows) {
    as_observer("loader", [&](Capture& capture) { see(capture, *self, rows); });
    return Hooked::original(self, rows);
  }
  static bool install(const char* symbol) noexcept {
    return Hooked::install_for_watched(symbol, call);
  }

 private:
  // How many are left is private to a sampler: a copy is asked for all of them.
  static void see(Capture& capture, const Sampler& sampler, std::size_t rows) {
    if (!capture.marker().surveying() || rows < 2 || rows > kMaxRows) return;
    if (is_loader_thread()) return;  // within a chunk of the data
    const std::lock_guard lock(mutex);
    if (goes_on(&sampler, sampler.index(), rows)) return;
    if (!is_brief_to_copy(sampler) || told++ >= kMaxTellings) return;
    Sampler copy = sampler;
    const Rows left = Hooked::original(&copy, kMaxRows);
    if (!left.has_value() || left->size() >= kMaxRows) return;
    capture.put(BatchRequestEvent{.at = capture.marker().now(),
                                  .rows = static_cast<std::int64_t>(rows),
                                  .rows_left = static_cast<std::int64_t>(left->size())});
  }
};
}  // namespace

bool install_sampler_watch() noexcept {
  using namespace torch::data::samplers;
  bool live = NextBatch<RandomSampler>::install("_ZN5torch4data8samplers13RandomSampler4nextEm");
  live &=
      NextBatch<SequentialSampler>::install("_ZN5torch4data8samplers17SequentialSampler4nextEm");
  live &= NextBatch<DistributedRandomSampler>::install(
      "_ZN5torch4data8samplers24DistributedRandomSampler4nextEm");
  live &= NextBatch<DistributedSequentialSampler>::install(
      "_ZN5torch4data8samplers28DistributedSequentialSampler4nextEm");
  return live;
}

}  // namespace ddpscope
