#include "exchange/kept_area.h"

#include <algorithm>
#include <functional>
#include <new>

#include "exchange/ring_blobs.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kHashHalf = 0xffffffff00000000;

std::uint64_t hash_of_name(std::string_view text) {
  return std::hash<std::string_view>{}(text)*0x9e3779b97f4a7c15;
}
}  // namespace

KeptArea::KeptArea(char* begin, std::uint32_t bytes, std::uint64_t* used)
    : begin_(begin),
      bytes_(bytes),
      used_(used),
      mask_(std::bit_ceil(std::max(bytes / 32, 16u)) - 1),
      places_(new std::atomic<std::uint64_t>[mask_ + 1]()) {}

KeptArea::Slot KeptArea::find(std::string_view text, std::uint64_t hash) const noexcept {
  auto index = static_cast<std::uint32_t>(hash >> 32) & mask_;
  for (;; index = (index + 1) & mask_) {
    const auto place = places_[index].load(std::memory_order_acquire);
    if (place == 0) return {.index = index};
    if ((place & kHashHalf) != (hash & kHashHalf)) continue;
    const char* at = begin_ + ((place & ~kHashHalf) - 1) * 8;
    ring::Frame frame;
    std::memcpy(&frame, at, sizeof frame);
    if (std::string_view(at + sizeof frame, frame.bytes) != text) continue;
    return {.index = index, .id = frame.number};
  }
}

NameId KeptArea::name(std::string_view text) noexcept {
  text = text.substr(0, ring::kNameBytes);
  const std::uint64_t hash = hash_of_name(text);
  if (const Slot known = find(text, hash); known.id != 0) return known.id;

  const std::lock_guard lock(mutex_);
  const Slot slot = find(text, hash);
  if (slot.id != 0) return slot.id;
  if (names_ >= mask_ / 2) return 0;
  const auto at = append({.kind = BlobKind::kName, .number = names_ + 1, .bytes = text});
  if (at < 0) return 0;
  const auto place = (hash & kHashHalf) | (static_cast<std::uint64_t>(at) / 8 + 1);
  places_[slot.index].store(place, std::memory_order_release);
  return ++names_;
}

std::string KeptArea::text(NameId id) {
  const std::lock_guard lock(mutex_);
  for (const Blob& blob : ring::kept_blobs({begin_, static_cast<std::size_t>(*used_)})) {
    if (blob.kind == BlobKind::kName && blob.number == id) return std::string(blob.bytes);
  }
  return {};
}

void KeptArea::put(const Blob& blob) noexcept {
  const std::lock_guard lock(mutex_);
  append(blob);
}

std::int64_t KeptArea::append(const Blob& blob) noexcept {
  const std::uint64_t at = *used_;
  const std::uint64_t needed = sizeof(ring::Frame) + ring::padded(blob.bytes.size());
  if (needed > bytes_ - at) return -1;
  ring::write_frame(begin_ + at, at, blob);
  std::atomic_ref(*used_).store(at + needed, std::memory_order_release);
  return static_cast<std::int64_t>(at);
}

}  // namespace ddpscope
