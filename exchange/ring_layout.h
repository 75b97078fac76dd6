#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exchange/rank_ring.h"

namespace ddpscope::ring {

// Note [What a ring proves]
// A process may die between any two stores, and a reader may copy while a writer writes. So each
// slot and each frame carries a check over its place and its words, and whoever reads believes
// nothing else: what is half written, overwritten or cut off does not fit its check.

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint64_t kMagic = 0x676e6972'70646464;  // "dddpring"
inline constexpr std::size_t kRunIdBytes = 256;
inline constexpr std::size_t kNameBytes = 1024;
inline constexpr std::uint32_t kMaxCalls = 1 << 22;
inline constexpr std::uint32_t kMaxDigests = 1 << 18;
inline constexpr std::uint32_t kMaxAreaBytes = 1 << 26;

struct Head {
  std::uint64_t magic = 0;
  std::uint64_t check = 0;  ///< over what follows
  std::uint32_t version = 0;
  std::uint32_t run_id_bytes = 0;
  std::int64_t rank = 0;
  std::int64_t world_size = 0;
  std::int64_t pid = 0;
  std::uint32_t calls = 0;
  std::uint32_t digests = 0;
  std::uint32_t kept_bytes = 0;
  std::uint32_t recent_bytes = 0;
  std::array<char, kRunIdBytes> run_id = {};
};

/// Before the bytes of a blob, which are padded to whole words.
struct Frame {
  std::uint64_t check = 0;  ///< over what follows and the bytes
  std::uint64_t at = 0;     ///< bytes ever written to the area before this frame
  std::int64_t step = 0;
  std::uint32_t kind = 0;
  std::uint32_t number = 0;
  std::uint32_t bytes = 0;
  std::uint32_t unused = 0;
};

/// A heartbeat as words.
struct Beat {
  std::int64_t unix_ns = 0;
  std::int64_t step = 0;
  std::uint64_t progress = 0;
  std::uint32_t module = 0;
  std::uint16_t phase = 0;
  std::uint16_t ended = 0;
};

// Where what stands, in bytes from the begin of the file; counters have a cache line each.
inline constexpr std::size_t kCallCount = 1024;
inline constexpr std::size_t kDigestCount = 1088;
inline constexpr std::size_t kKeptUsed = 1152;
inline constexpr std::size_t kRecentUsed = 1216;
inline constexpr std::size_t kBeatCount = 1280;
inline constexpr std::size_t kBeats = 1344;
inline constexpr std::size_t kLoneSteps = 3072;
inline constexpr std::size_t kFirstArea = 4096;
static_assert(sizeof(Head) <= kCallCount);

/// Words before the record of a slot: its place + 1, its check, and how the call ended.
inline constexpr std::size_t kSlotHead = 3;

template <class Record>
inline constexpr std::size_t kWords = sizeof(Record) / 8;
template <class Record>
inline constexpr std::size_t kSlotBytes = 8 * (kSlotHead + kWords<Record>);
template <class Record>
using Words = std::array<std::uint64_t, kWords<Record>>;

struct Layout {
  std::size_t digests = 0;
  std::size_t kept = 0;
  std::size_t recent = 0;
  std::size_t end = 0;
};

inline Layout layout_of(const RingSizes& sizes) {
  Layout layout;
  layout.digests = kFirstArea + sizes.calls * kSlotBytes<CallRecord>;
  layout.kept = layout.digests + sizes.digests * kSlotBytes<StepDigest>;
  layout.recent = layout.kept + sizes.kept_bytes;
  layout.end = layout.recent + sizes.recent_bytes;
  return layout;
}

inline constexpr std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// Of whole words; `bytes` is a multiple of 8.
inline std::uint64_t check_of(const void* data, std::size_t bytes, std::uint64_t seed) {
  constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;
  const char* at = static_cast<const char*>(data);
  // Else a first word that counts as the seed does, like the number of a call, takes it out again.
  std::uint64_t hash = (seed + 1) * kFactor;
  hash ^= hash >> 29;
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i, 8);
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 29;  // else two bits in the right places hide each other
  }
  return hash ^ (hash >> 32);
}

/// Of a frame whose bytes follow it.
inline std::uint64_t check_of(const Frame& frame, const void* bytes) {
  const auto* after_check = reinterpret_cast<const char*>(&frame) + sizeof frame.check;
  const auto head = check_of(after_check, sizeof frame - sizeof frame.check, kMagic);
  return check_of(bytes, padded(frame.bytes), head);
}

inline std::uint64_t check_of(const Head& head) {
  constexpr std::size_t kBegin = offsetof(Head, version);
  return check_of(reinterpret_cast<const char*>(&head) + kBegin, sizeof head - kBegin, kMagic);
}

/// How a call ended, with enough of its place that a late end does not go to a later call.
inline std::uint64_t ending_of(std::uint64_t place, std::uint32_t waited_us, CallState state) {
  return (place & 0xffffff) << 40 | std::uint64_t{static_cast<std::uint8_t>(state)} << 32 |
         waited_us;
}

inline bool is_of(std::uint64_t ending, std::uint64_t place) {
  return ending >> 40 == (place & 0xffffff);
}
inline CallState state_in(std::uint64_t ending) {
  return static_cast<CallState>(static_cast<std::uint8_t>(ending >> 32));
}

/// The frame and its bytes; `at` counts the bytes ever written to the area.
void write_frame(char* to, std::uint64_t at, const Blob& blob);

std::string file_name(std::int64_t rank);

}  // namespace ddpscope::ring
