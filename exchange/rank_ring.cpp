#include "exchange/rank_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "exchange/kept_area.h"
#include "exchange/ring_guard.h"
#include "exchange/ring_layout.h"
#include "model/hot_code.h"
#include "records/file_descriptor.h"

namespace ddpscope {
namespace {

RingSizes within_limits(const RingSizes& asked) {
  const auto area = [](std::uint32_t bytes) {
    return std::min(bytes, ring::kMaxAreaBytes) / 64 * 64;
  };
  return {.calls = std::clamp(asked.calls, 1u, ring::kMaxCalls),
          .digests = std::clamp(asked.digests, 1u, ring::kMaxDigests),
          .kept_bytes = area(asked.kept_bytes),
          .recent_bytes = area(asked.recent_bytes)};
}

ring::Head written_head(const RingHead& head, const RingSizes& sizes) {
  ring::Head written{.magic = ring::kMagic,
                     .version = kRingVersion,
                     .rank = head.rank,
                     .world_size = head.world_size,
                     .pid = head.pid,
                     .calls = sizes.calls,
                     .digests = sizes.digests,
                     .kept_bytes = sizes.kept_bytes,
                     .recent_bytes = sizes.recent_bytes};
  const auto run_id = std::string_view(head.run_id).substr(0, ring::kRunIdBytes);
  std::ranges::copy(run_id, written.run_id.begin());
  written.run_id_bytes = static_cast<std::uint32_t>(run_id.size());
  written.check = ring::check_of(written);
  return written;
}

/// All blocks of the file, or an errno. Beyond the limit of the process even asking is a signal.
int take_blocks(int fd, std::size_t bytes) {
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) return EFBIG;
  return ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
}

void store(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

// The end comes first: an earlier call of this slot can then no longer be ended.
template <class Record>
void write_slot(std::uint64_t* slot, std::uint64_t place, const Record& record) {
  ring::Words<Record> words;
  std::memcpy(words.data(), &record, sizeof record);
  store(slot[2], ring::ending_of(place, 0, CallState::kIssued));
  store(slot[0], place + 1);
  for (std::size_t i = 0; i < words.size(); ++i) store(slot[ring::kSlotHead + i], words[i]);
  store(slot[1], ring::check_of(words.data(), sizeof record, place + 1));
}

}  // namespace

struct RingWriter::Mapping {
  Mapping(char* file, const RingSizes& asked)
      : begin(file),
        sizes(asked),
        layout(ring::layout_of(asked)),
        kept(begin + layout.kept, sizes.kept_bytes, word(ring::kKeptUsed)) {
    guard_ring(begin, layout.end);
  }
  ~Mapping() {
    forget_ring(begin);
    ::munmap(begin, layout.end);
  }

  std::uint64_t* word(std::size_t at) { return reinterpret_cast<std::uint64_t*>(begin + at); }
  std::uint64_t count_up(std::size_t counter) {
    return std::atomic_ref(*word(counter)).fetch_add(1, std::memory_order_release);
  }
  std::uint64_t* call(std::uint64_t place) {
    return word(ring::kFirstArea + place % sizes.calls * ring::kSlotBytes<CallRecord>);
  }
  std::uint64_t* digest(std::uint64_t place) {
    return word(layout.digests + place % sizes.digests * ring::kSlotBytes<StepDigest>);
  }

  char* begin;
  RingSizes sizes;
  ring::Layout layout;
  KeptArea kept;
};

RingWriter::RingWriter() = default;
RingWriter::~RingWriter() = default;

std::string RingWriter::open(int dir_fd, const RingHead& head, const RingSizes& asked) {
  const std::string name = ring::file_name(head.rank);
  const RingSizes sizes = within_limits(asked);
  const std::size_t bytes = ring::layout_of(sizes).end;
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const FileDescriptor file(::openat(dir_fd, name.c_str(), kFlags, 0600));
  if (!file) return name + ": " + std::strerror(errno);
  ::fchmod(file.get(), 0600);  // whatever the umask

  const auto refused = [&](int error) {
    ::unlinkat(dir_fd, name.c_str(), 0);
    return name + ": " + std::strerror(error) + " for " + std::to_string(bytes) + " bytes";
  };
  if (const int error = take_blocks(file.get(), bytes); error != 0) return refused(error);
  void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (begin == MAP_FAILED) return refused(errno);
  const ring::Head written = written_head(head, sizes);
  std::memcpy(begin, &written, sizeof written);
  mapping_ = std::make_unique<Mapping>(static_cast<char*>(begin), sizes);
  return {};
}

NameId RingWriter::name(std::string_view text) noexcept {
  return mapping_ == nullptr || text.empty() ? 0 : mapping_->kept.name(text);
}

std::string RingWriter::text(NameId id) const {
  return mapping_ == nullptr ? std::string() : mapping_->kept.text(id);
}

std::uint64_t RingWriter::issued(const CallRecord& call) noexcept {
  if (mapping_ == nullptr) return 0;
  const std::uint64_t place = mapping_->count_up(ring::kCallCount);
  write_slot(mapping_->call(place), place, call);
  fetch_early(mapping_->call(place + 1), ring::kSlotBytes<CallRecord>);
  return place;
}

// The backend tells the end, and later the program how long it waited for it.
void RingWriter::ended(std::uint64_t place, std::uint32_t waited_us, CallState state) noexcept {
  if (mapping_ == nullptr) return;
  const std::atomic_ref ending(mapping_->call(place)[2]);
  std::uint64_t before = ending.load(std::memory_order_relaxed);
  while (ring::is_of(before, place)) {
    const CallState told = ring::state_in(before);
    const std::uint64_t after =
        ring::ending_of(place, std::max(waited_us, static_cast<std::uint32_t>(before)),
                        told == CallState::kIssued ? state : told);
    if (ending.compare_exchange_weak(before, after, std::memory_order_relaxed)) return;
  }
}

void RingWriter::put(const StepDigest& digest) noexcept {
  if (mapping_ == nullptr) return;
  const std::uint64_t place = mapping_->count_up(ring::kDigestCount);
  write_slot(mapping_->digest(place), place, digest);
}

void RingWriter::put(const LoneSteps& lone) noexcept {
  if (mapping_ != nullptr) write_slot(mapping_->word(ring::kLoneSteps), 0, lone);
}

void RingWriter::put(const Blob& blob) noexcept {
  if (mapping_ == nullptr) return;
  if (blob.kind == BlobKind::kName) {
    mapping_->kept.name(blob.bytes);
    return;
  }
  if (blob.kind == BlobKind::kTensors || blob.kind == BlobKind::kSite) {
    mapping_->kept.put(blob);
    return;
  }
  const std::uint64_t size = mapping_->sizes.recent_bytes;
  const std::uint64_t needed = sizeof(ring::Frame) + ring::padded(blob.bytes.size());
  if (needed > size) return;
  std::uint64_t* const used = mapping_->word(ring::kRecentUsed);
  std::uint64_t at = *used;
  if (at % size + needed > size) at += size - at % size;  // a frame never goes over the end
  ring::write_frame(mapping_->begin + mapping_->layout.recent + at % size, at, blob);
  std::atomic_ref(*used).store(at + needed, std::memory_order_release);
}

void RingWriter::beat(const Heartbeat& heartbeat) noexcept {
  if (mapping_ == nullptr) return;
  const ring::Beat beat{.unix_ns = heartbeat.unix_ns,
                        .step = heartbeat.step,
                        .progress = heartbeat.progress,
                        .module = heartbeat.module,
                        .phase = static_cast<std::uint16_t>(heartbeat.phase),
                        .ended = heartbeat.ended};
  const std::uint64_t place = mapping_->count_up(ring::kBeatCount);
  // Two slots in turn: one of them is always whole.
  write_slot(mapping_->word(ring::kBeats) + place % 2 * ring::kSlotBytes<ring::Beat> / 8, place,
             beat);
}

}  // namespace ddpscope
