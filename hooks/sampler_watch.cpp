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

template <class Sampler>
constexpr bool kMakesShares =
    std::is_base_of_v<torch::data::samplers::DistributedSampler<>, Sampler>;

template <class Sampler>
struct Share : Sampler {
  static std::size_t replicas_of(const Sampler& sampler) { return sampler.*&Share::num_replicas_; }
  static std::size_t replica_of(const Sampler& sampler) { return sampler.*&Share::rank_; }
  /// A copy of such a sampler copies the indices of all ranks.
  static std::size_t size_of(const Sampler& sampler) { return sampler.*&Share::size_; }
};

template <class Sampler>
struct NextBatch {
  using Hooked = Interposed<NextBatch, Rows(Sampler*, std::size_t)>;

  static Rows call(Sampler* self, std::size_t rows) {
    as_guest("loader", [&](Capture& capture) { see(capture, *self, rows); });
    return Hooked::original(self, rows);
  }
  // Of shares each epoch is told, also where hooks rest: a rank may ask for others in turn.
  static bool install(const char* symbol) noexcept {
    return kMakesShares<Sampler> ? Hooked::install(symbol, call)
                                 : Hooked::install_for_watched(symbol, call);
  }

 private:
  static void see(Capture& capture, const Sampler& sampler, std::size_t rows) {
    const bool surveys = capture.marker().surveying();
    if ((!surveys && !kMakesShares<Sampler>) || rows < 2 || rows > kMaxRows) return;
    if (is_loader_thread()) return;  // within a chunk of the data
    const std::lock_guard lock(mutex);
    if (goes_on(&sampler, sampler.index(), rows)) return;
    if (told++ >= kMaxTellings) return;
    BatchRequestEvent event{.at = capture.marker().now(), .rows = static_cast<std::int64_t>(rows)};
    if (surveys) event.rows_left = static_cast<std::int64_t>(rows_left(sampler));
    if constexpr (kMakesShares<Sampler>) {
      event.replicas = static_cast<std::int32_t>(Share<Sampler>::replicas_of(sampler));
      event.replica = static_cast<std::int32_t>(Share<Sampler>::replica_of(sampler));
    }
    if (event.rows_left > 0 || event.replicas > 0) capture.put(event);
  }

  // That is private to a sampler: a copy is asked for all of them.
  static std::size_t rows_left(const Sampler& sampler) {
    if constexpr (kMakesShares<Sampler>) {
      if (Share<Sampler>::size_of(sampler) >= kMaxRows) return 0;
    }
    Sampler copy = sampler;
    const Rows left = Hooked::original(&copy, kMaxRows);
    return left.has_value() && left->size() < kMaxRows ? left->size() : 0;
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
