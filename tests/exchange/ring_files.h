#pragma once

#include <fcntl.h>

#include <cstring>
#include <string>

#include "exchange/rank_ring.h"
#include "records/file_descriptor.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {

inline constexpr RingSizes kSmallRing{
    .calls = 16, .digests = 16, .kept_bytes = 1024, .recent_bytes = 1024};

inline RingHead head_of(std::int64_t rank) {
  return {.run_id = "run", .rank = rank, .world_size = 4, .pid = 42};
}

/// Opens the ring of rank 0 in `dir`. Returns the error text.
inline std::string open_ring(RingWriter& writer, const std::string& dir,
                             const RingSizes& sizes = kSmallRing, std::int64_t rank = 0) {
  const FileDescriptor folder(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return writer.open(folder.get(), head_of(rank), sizes);
}

/// Differs in every member for every `number`.
inline CallRecord call_number(std::uint64_t number) {
  return {.seq = number + 1,
          .group = 7 * number + 3,
          .unix_ns = static_cast<std::int64_t>(number) * 1000,
          .elements = number << 20,
          .step = static_cast<std::int32_t>(number / 3),
          .list = 2,
          .owner = static_cast<NameId>(number + 5),
          .root = static_cast<std::int32_t>(number % 4),
          .kind = static_cast<CollectiveKind>(number % 11),
          .reduce = ReduceKind::kSum,
          .phase = Phase::kBackward};
}

inline StepDigest digest_number(std::int64_t number) {
  return {.step = number,
          .structure = 0xabcd,
          .parameters = static_cast<std::uint64_t>(number) * 31,
          .learning_rate = 0.5,
          .averages = number % 2 == 1};
}

inline bool equal(const CallRecord& a, const CallRecord& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}
inline bool equal(const StepDigest& a, const StepDigest& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace ddpscope
