#include "exchange/ring_layout.h"

#include <fmt/format.h>

namespace ddpscope::ring {

std::string file_name(std::int64_t rank) { return fmt::format("rank-{}.ring", rank); }

void write_frame(char* to, std::uint64_t at, const Blob& blob) {
  Frame frame{.at = at,
              .step = blob.step,
              .kind = static_cast<std::uint32_t>(blob.kind),
              .number = blob.number,
              .bytes = static_cast<std::uint32_t>(blob.bytes.size())};
  char* bytes = to + sizeof frame;
  std::memcpy(bytes, blob.bytes.data(), blob.bytes.size());
  std::memset(bytes + blob.bytes.size(), 0, padded(blob.bytes.size()) - blob.bytes.size());
  frame.check = check_of(frame, bytes);
  std::memcpy(to, &frame, sizeof frame);
}

}  // namespace ddpscope::ring
