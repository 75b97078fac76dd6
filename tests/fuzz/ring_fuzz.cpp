// What a rank left behind may be anything: what is read of it is bounded, and of words that exist.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "exchange/rank_ring.h"
#include "exchange/ring_layout.h"
#include "exchange/ring_steps.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {
using fuzz::require;

constexpr RingSizes kSizes{.calls = 4, .digests = 2, .kept_bytes = 512, .recent_bytes = 512};

/// The input follows a sound head: no input would ever find the check over it.
std::string image_of(const std::string& input) {
  ring::Head head{.magic = ring::kMagic,
                  .version = kRingVersion,
                  .run_id_bytes = 3,
                  .rank = 1,
                  .world_size = 2,
                  .pid = 3,
                  .calls = kSizes.calls,
                  .digests = kSizes.digests,
                  .kept_bytes = kSizes.kept_bytes,
                  .recent_bytes = kSizes.recent_bytes};
  head.check = ring::check_of(head);
  std::string image(ring::kCallCount, '\0');
  std::memcpy(image.data(), &head, sizeof head);
  const std::size_t counters = std::min<std::size_t>(input.size(), 512);
  image.append(input, 0, counters);
  image.resize(ring::kFirstArea, '\0');
  return image.append(input, counters);
}

void read_calls(const RingReader& reader) {
  std::uint64_t calls = 0;
  for (auto i = reader.first_call(); i < reader.call_count(); ++i, ++calls) {
    const auto call = reader.call(i);
    if (!call) continue;
    require(call->kind <= CollectiveKind::kBarrier, "a call is of a known kind");
    require(call->state <= CallState::kFailed, "a call has a known state");
    require(reader.name(call->owner).size() <= kSizes.kept_bytes, "a name is in the file");
  }
  require(calls <= kSizes.calls, "no more calls than there are slots");
}

void read_ring(const std::string& input) {
  static const TemporaryDir dir;
  const std::string path = dir / "rank-1.ring";
  std::ofstream(path, std::ios::binary) << input;
  RingReader reader;
  if (!reader.open(path).empty()) return;
  read_calls(reader);
  std::uint64_t digests = 0;
  for (auto i = reader.first_digest(); i < reader.digest_count(); ++i, ++digests) reader.digest(i);
  require(digests <= kSizes.digests, "no more digests than there are slots");
  std::size_t bytes = 0;
  for (const Blob& blob : reader.blobs()) bytes += blob.bytes.size();
  require(bytes <= kSizes.kept_bytes + kSizes.recent_bytes, "blobs do not overlap");
  require(reader.heartbeat().phase <= Phase::kExit, "a heartbeat has a known phase");
  show_steps(reader, 1, 1 << 20);
  read_calls(reader);
}
}  // namespace
}  // namespace ddpscope

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ddpscope::read_ring(ddpscope::image_of(text));
  if (size >= sizeof(ddpscope::ring::Head)) ddpscope::read_ring(text);
  return 0;
}
