#include "ops/batch_norm/mixed_up.h"

#include <array>
#include <atomic>
#include <mutex>

namespace ddpscope::batch_norm {
namespace {

constexpr std::size_t kKept = 1024;  // of the last calls, which may still be under way

struct Place {
  std::int64_t number = 0;
  std::string text;
};

// Never destroyed: kernels may outlive what a process destroys at its end.
struct Notices {
  std::mutex mutex;
  std::atomic<cuda::MixedUp*> notice{nullptr};
  std::array<Place, kKept> places;
  std::int64_t last = 0;
};

Notices& notices() {
  static auto* const leaked = new Notices;
  return *leaked;
}

}  // namespace

cuda::MixedUp* mixed_up_notice(const device::Place& place) {
  Notices& all = notices();
  if (cuda::MixedUp* const made = all.notice.load()) return made;
  const std::lock_guard lock(all.mutex);
  if (all.notice.load() == nullptr) {
    all.notice = static_cast<cuda::MixedUp*>(place.make_notice(sizeof(cuda::MixedUp)));
  }
  return all.notice.load();
}

std::int64_t note_place(const Call& call, Phase phase) {
  Notices& all = notices();
  std::string text = call.place(phase) + " over " + call.group->name();
  const std::lock_guard lock(all.mutex);
  const std::int64_t number = ++all.last;
  all.places[static_cast<std::size_t>(number) % kKept] = {number, std::move(text)};
  return number;
}

void throw_if_mixed_up() {
  Notices& all = notices();
  cuda::MixedUp* const notice = all.notice.load();
  if (notice == nullptr || notice->place == 0) return;
  const std::lock_guard lock(all.mutex);
  const std::int64_t number = notice->place;
  notice->place = 0;
  const Place& place = all.places[static_cast<std::size_t>(number) % kKept];
  TORCH_CHECK(false, "sync_batch_norm: in an earlier call, at ",
              place.number == number ? place.text : "a layer that is no longer known",
              ", another rank was at another layer, call or phase. Every rank must run the same "
              "layers in the same order, forward and backward, also with an empty batch");
}

}  // namespace ddpscope::batch_norm
