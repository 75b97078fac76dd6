#include "stacks/stack_table.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "stacks/address.h"

namespace ddpscope {
namespace {

constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15;
constexpr int kProbes = 64;

std::uint64_t word(const void* frame) noexcept { return reinterpret_cast<std::uintptr_t>(frame); }

/// Four sums side by side: the processor multiplies faster than one product waits for the next.
std::uint64_t hash_of(std::span<void* const> frames) noexcept {
  std::uint64_t sums[4] = {frames.size(), 1, 2, 3};
  std::size_t at = 0;
  for (; at + 4 <= frames.size(); at += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      sums[lane] = (std::rotl(sums[lane], 23) ^ word(frames[at + lane])) * kMultiplier;
    }
  }
  for (; at < frames.size(); ++at) {
    sums[at % 4] = (std::rotl(sums[at % 4], 23) ^ word(frames[at])) * kMultiplier;
  }
  const std::uint64_t left = (sums[0] ^ std::rotl(sums[1], 17)) * kMultiplier;
  const std::uint64_t right = (sums[2] ^ std::rotl(sums[3], 17)) * kMultiplier;
  const std::uint64_t all = (left ^ std::rotl(right, 32)) * kMultiplier;
  return all ^ all >> 32;
}

/// Zeroed pages that cost nothing until they are written; null where there is no room.
template <typename T>
T* reserve(std::uint64_t count) noexcept {
  return static_cast<T*>(std::calloc(count, sizeof(T)));
}

}  // namespace

void StackTable::Free::operator()(void* memory) const noexcept { std::free(memory); }

StackTable::StackTable(Limits limits) {
  const std::uint64_t slots = std::bit_ceil(std::uint64_t{limits.stacks} * 2 + 1);
  const std::uint64_t words = std::uint64_t{limits.stacks} * (limits.frames_per_stack + 1);
  const auto held = std::min<std::uint64_t>(words, std::numeric_limits<std::uint32_t>::max());
  slots_.reset(reserve<Slot>(slots));
  words_.reset(reserve<void*>(held));
  if (slots_ == nullptr || words_ == nullptr) return;
  slot_mask_ = slots - 1;
  words_limit_ = std::uint32_t(held);
  stacks_limit_ = limits.stacks;
}

StackId StackTable::intern(std::span<void* const> frames) noexcept {
  if (frames.empty() || words_limit_ == 0) return frames.empty() ? 0 : give_up();
  const std::uint64_t hash = hash_of(frames);
  StackId mine = 0;
  for (std::uint64_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots_[(hash + probe) & slot_mask_];
    std::uint64_t held = slot.load(std::memory_order_acquire);
    if (held == 0) {
      if (mine == 0) mine = write(frames);
      if (mine == 0) return give_up();
      const std::uint64_t wanted = hash >> 32 << 32 | mine;
      if (slot.compare_exchange_strong(held, wanted, std::memory_order_acq_rel)) return mine;
    }
    if (holds(held, hash, frames)) {
      if (mine != 0) take_back(mine, frames.size());
      return StackId(held);
    }
  }
  if (mine != 0) take_back(mine, frames.size());
  return give_up();
}

bool StackTable::holds(std::uint64_t slot, std::uint64_t hash,
                       std::span<void* const> frames) const noexcept {
  if (slot >> 32 != hash >> 32) return false;
  const std::span<void* const> held = this->frames(StackId(slot));
  return held.size() == frames.size() &&
         std::memcmp(held.data(), frames.data(), frames.size_bytes()) == 0;
}

StackId StackTable::write(std::span<void* const> frames) noexcept {
  const std::size_t needed = frames.size() + 1;
  if (stacks_.fetch_add(1, std::memory_order_relaxed) >= stacks_limit_) {
    stacks_.fetch_sub(1, std::memory_order_relaxed);
    return 0;
  }
  std::uint32_t begin = words_used_.load(std::memory_order_relaxed);
  do {
    if (needed > words_limit_ - begin) {
      stacks_.fetch_sub(1, std::memory_order_relaxed);
      return 0;
    }
  } while (!words_used_.compare_exchange_weak(
      begin, begin + std::uint32_t(needed), std::memory_order_acquire, std::memory_order_relaxed));
  words_[begin] = pointer_to<void>(frames.size());
  std::memcpy(&words_[begin + 1], frames.data(), frames.size_bytes());
  return begin + 1;
}

/// Another thread was faster. The words are free again if nobody took the next ones meanwhile; who
/// takes them writes after this thread did.
void StackTable::take_back(StackId id, std::size_t count) noexcept {
  stacks_.fetch_sub(1, std::memory_order_relaxed);
  std::uint32_t end = id + std::uint32_t(count);
  words_used_.compare_exchange_strong(end, id - 1, std::memory_order_release,
                                      std::memory_order_relaxed);
}

StackId StackTable::give_up() noexcept {
  evicted_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

std::span<void* const> StackTable::frames(StackId id) const noexcept {
  if (id == 0 || id > words_limit_) return {};
  void* const* begin = &words_[id - 1];
  return {begin + 1, std::size_t(word(*begin))};
}

}  // namespace ddpscope
