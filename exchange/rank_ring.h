#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/call_log.h"
#include "model/hot_code.h"
#include "model/step_digest.h"
#include "records/file_descriptor.h"

namespace ddpscope {

// `rank-<r>.ring`: a file of fixed size, written through a mapping, so that what is in it outlives
// the process. Little endian, version in its head, internal: only ddpscope of this version reads
// it.

inline constexpr std::uint32_t kRingVersion = 12;
inline constexpr std::size_t kDigestSlots = 4096;

struct RingSizes {
  std::uint32_t calls = 1 << 16;  ///< the setting `history`
  std::uint32_t digests = kDigestSlots;
  std::uint32_t kept_bytes = 1 << 20;    ///< names and lists, never overwritten
  std::uint32_t recent_bytes = 4 << 20;  ///< the oldest is overwritten
};

/// What a list of bytes in a ring is.
enum class BlobKind : std::uint32_t {
  kName = 1,          ///< kept: text of the name that its `number` says
  kTensors = 2,       ///< kept: the registered tensors of one model, exchange/tensor_list.h
  kGradients = 3,     ///< recent: one bit per registered parameter, those that received a gradient
  kFingerprints = 4,  ///< recent: eight bytes per registered parameter, then per buffer
  kSite = 5,          ///< kept: the frames of the stack that its `number` says, records/site_line.h
  kReductions = 6,    ///< recent: exchange/reduction_record.h
  kBatch = 7,         ///< recent: text of the shape and type of a batch, where they changed
  kRandom = 8,        ///< recent: seed, operator and module of `random`, where they changed
  kSketches = 9,      ///< recent: of registered tensors, exchange/reduction_record.h
  kLoss = 10,         ///< recent: operator, classes and module of a loss, where they changed
  kNonfinite =
      11,  ///< recent: the first gradient that was not finite, exchange/nonfinite_compare.h
  kSyncPattern = 12,  ///< recent: text of exchange/sync_patterns.h, where it changed
  kMissing = 13,      ///< recent: one byte per registered parameter without a gradient,
                      ///< exchange/missing_on_ranks.h
  kEpoch = 14,        ///< recent: number of batches of an epoch, at the step of its first
  kRan = 15,    ///< recent: one byte; a model that no gradient reached ran before the backward
  kLoad = 16,   ///< recent: one byte; parameters were read from an archive
  kLeft = 17,   ///< recent: as kReductions, of gradients that the optimizer does not have
  kGraph = 18,  ///< recent: exchange/graph_compare.h
  kShare = 19,  ///< recent: text of exchange/sampler_shares.h, where an epoch begins
};

struct Blob {
  BlobKind kind = BlobKind::kName;
  std::uint32_t number = 0;  ///< of the name or of the model
  std::int64_t step = 0;
  std::string_view bytes;
};

/// Where a rank stands now.
struct Heartbeat {
  std::int64_t unix_ns = 0;
  std::int64_t step = 0;
  std::uint64_t progress = 0;  ///< anything that moves while the rank does something
  NameId module = 0;
  Phase phase = Phase::kInit;
  bool ended = false;  ///< the loop is over and the process about to leave
};

/// Of the whole file.
std::size_t ring_bytes(const RingSizes& sizes);

struct RingHead {
  std::string run_id;
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t pid = 0;
};

/// Writes one rank's ring. Any thread; nothing blocks but `name` of a new text, nothing throws.
/// Without a usable file every call does nothing.
class RingWriter final : public CallLog {
 public:
  /// Creates `<dir>/rank-<r>.ring` (0600), whole on the disk, so that a full disk is met here and
  /// not by a signal at a later write. Returns an error text, or nothing.
  std::string open(int dir_fd, const RingHead& head, const RingSizes& sizes);
  RingWriter();
  ~RingWriter() override;

  NameId name(std::string_view text) noexcept override;
  DDPSCOPE_HOT std::uint64_t issued(const CallRecord& call) noexcept override;
  DDPSCOPE_HOT void ended(std::uint64_t place, std::uint32_t waited_us,
                          CallState state) noexcept override;

  /// The text of a number that `name` gave.
  std::string text(NameId id) const;

  /// From one thread at a time.
  void put(const StepDigest& digest) noexcept;
  void put(const Blob& blob) noexcept;
  /// Once: for who reads it the steps of this rank begin after these.
  void put(const LoneSteps& lone) noexcept;
  void beat(const Heartbeat& heartbeat) noexcept;

 private:
  struct Mapping;
  std::unique_ptr<Mapping> mapping_;
};

/// What of a ring is shown: places of calls and digests up to the counts, of these steps.
struct RingPart {
  std::uint64_t first_call = 0;
  std::uint64_t call_count = 0;
  std::uint64_t first_digest = 0;
  std::uint64_t digest_count = 0;
  std::int64_t first_step = INT64_MIN;
  std::int64_t last_step = INT64_MAX;

  bool has(std::int64_t step) const { return step >= first_step && step <= last_step; }
};

/// Reads a ring that may be written at this moment, cut off, or hostile: what does not fit is left
/// out, and nothing outside the file is ever touched. Views live as long as the reader. Steps that
/// the rank made alone before it trained with others are not shown, and steps count from there.
class RingReader {
 public:
  /// An error text, or nothing.
  std::string open(const std::string& path);
  /// The same of a ring that came from elsewhere: exchange/ring_mirror.h.
  std::string open(std::shared_ptr<const FileDescriptor> image);
  ~RingReader();
  RingReader();
  RingReader(RingReader&&) noexcept;
  RingReader& operator=(RingReader&&) noexcept;

  const RingHead& head() const;
  /// That its head promises and the file no longer has.
  std::size_t missing_bytes() const;
  Heartbeat heartbeat() const;
  /// Those that are not shown.
  const LoneSteps& lone_steps() const;
  void show_lone_steps();
  /// All of it, until `show` leaves a part; what follows is of that part.
  const RingPart& shown() const;
  void show(const RingPart& part);
  /// Number of calls ever issued, and the place of the oldest that is still there.
  std::uint64_t call_count() const;
  std::uint64_t first_call() const;
  /// In the order of issue; nothing where the slot was overwritten or is half written.
  std::optional<CallRecord> call(std::uint64_t place) const;
  std::uint64_t digest_count() const;
  std::uint64_t first_digest() const;
  std::optional<StepDigest> digest(std::uint64_t place) const;
  const std::vector<Blob>& blobs() const;  ///< until `show`
  std::string name(NameId id) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace ddpscope
