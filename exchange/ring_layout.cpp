#include "exchange/ring_layout.h"

namespace ddpscope {

std::size_t ring_bytes(const RingSizes& sizes) { return ring::layout_of(sizes).end; }

namespace ring {

std::string file_name(std::int64_t rank) { return "rank-" + std::to_string(rank) + ".ring"; }

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

}  // namespace ring
}  // namespace ddpscope
