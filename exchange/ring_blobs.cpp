#include "exchange/ring_blobs.h"

#include <algorithm>
#include <optional>

#include "exchange/ring_layout.h"

namespace ddpscope::ring {
namespace {
struct Found {
  Frame frame;
  const char* bytes = nullptr;
  std::size_t length = 0;  ///< of frame and bytes
};

/// What claims to be a frame that was written at a multiple of `size` before `begin`.
std::optional<Found> claimed(std::string_view area, std::size_t begin, std::size_t size) {
  Found found;
  if (area.size() - begin < sizeof found.frame) return std::nullopt;
  std::memcpy(&found.frame, area.data() + begin, sizeof found.frame);
  const Frame& frame = found.frame;
  const bool is_known = frame.kind >= static_cast<std::uint32_t>(BlobKind::kName) &&
                        frame.kind <= static_cast<std::uint32_t>(BlobKind::kShare);
  if (!is_known || frame.at % size != begin) return std::nullopt;
  found.length = sizeof frame + padded(frame.bytes);
  if (found.length > area.size() - begin) return std::nullopt;
  found.bytes = area.data() + begin + sizeof frame;
  return found;
}

bool is_whole(const Found& found) {
  return found.frame.check == check_of(found.frame, found.bytes);
}

Blob blob_of(const Found& found) {
  return {.kind = static_cast<BlobKind>(found.frame.kind),
          .number = found.frame.number,
          .step = found.frame.step,
          .bytes = {found.bytes, found.frame.bytes}};
}
}  // namespace

std::vector<Blob> kept_blobs(std::string_view area) {
  std::vector<Blob> blobs;
  for (std::size_t begin = 0; begin < area.size();) {
    const auto found = claimed(area, begin, area.size());
    if (!found || !is_whole(*found)) break;
    blobs.push_back(blob_of(*found));
    begin += found->length;
  }
  return blobs;
}

std::vector<Blob> recent_blobs(std::string_view area, std::size_t size) {
  std::vector<Found> whole;
  // Claims that overlap are no work of ours: what they cost ends here.
  std::size_t to_read = 4 * area.size();
  for (std::size_t begin = 0; begin < area.size();) {
    const auto found = claimed(area, begin, size);
    if (found && found->length > to_read) break;
    if (found) to_read -= found->length;
    if (found && is_whole(*found)) {
      whole.push_back(*found);
      begin += found->length;
    } else {
      begin += 8;
    }
  }
  std::ranges::sort(whole, {}, [](const Found& found) { return found.frame.at; });
  std::vector<Blob> blobs;
  std::ranges::transform(whole, std::back_inserter(blobs), blob_of);
  return blobs;
}

}  // namespace ddpscope::ring
