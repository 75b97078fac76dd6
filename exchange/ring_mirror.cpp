#include "exchange/ring_mirror.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "exchange/ring_bytes.h"
#include "exchange/ring_layout.h"
#include "model/clock.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kPieceMagic = 0x6563'6569'7064'6400 + kRingVersion;

struct PieceHead {
  std::uint64_t magic = kPieceMagic;
  std::uint64_t stream = 0;  ///< differs between senders
  std::uint64_t number = 0;  ///< from 0
  std::uint64_t file_bytes = 0;
};

/// Before bytes that belong at this place of the ring.
struct PartHead {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
};

template <class T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
bool take_front(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

void append_part(std::string& piece, std::uint64_t at, const std::vector<char>& bytes) {
  append(piece, PartHead{.at = at, .bytes = bytes.size()});
  piece.append(bytes.data(), bytes.size());
}

std::uint64_t counter_in(const std::vector<char>& head, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, head.data() + at, sizeof value);
  return value;
}

bool write_all(int fd, std::string_view bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(done));
    at += static_cast<std::uint64_t>(done);
  }
  return true;
}

std::shared_ptr<const FileDescriptor> make_image(std::uint64_t bytes) {
  FileDescriptor file(::memfd_create("ddpscope-ring", MFD_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  return std::make_shared<const FileDescriptor>(std::move(file));
}
}  // namespace

void RingPieces::add(Range area, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t size = area.end - area.begin;
  if (size == 0) return;
  from = std::max(from, to - std::min(to, size));
  while (from < to) {
    const std::uint64_t at = from % size;
    const std::uint64_t bytes = std::min(to - from, size - at);
    to_send_.push_back({area.begin + at, area.begin + at + bytes});
    from += bytes;
  }
}

void RingPieces::take_stock() {
  const OpenedFile opened = open_regular(path_);
  if (!opened.error.empty()) return;
  std::vector<char> page = read_bytes(opened.file.get(), 0, ring::kFirstArea);
  if (page.size() < ring::kFirstArea) return;
  ring::Head head;
  std::memcpy(&head, page.data(), sizeof head);
  if (stream_ == 0) {
    stream_ = ring::check_of(head) ^ static_cast<std::uint64_t>(unix_ns());
    file_bytes_ = static_cast<std::uint64_t>(opened.info.st_size);
  }
  const ring::Layout layout = ring::layout_of({.calls = head.calls,
                                               .digests = head.digests,
                                               .kept_bytes = head.kept_bytes,
                                               .recent_bytes = head.recent_bytes});
  const std::uint64_t calls = counter_in(page, ring::kCallCount);
  const std::uint64_t digests = counter_in(page, ring::kDigestCount);
  const std::uint64_t kept = counter_in(page, ring::kKeptUsed);
  const std::uint64_t recent = counter_in(page, ring::kRecentUsed);
  constexpr std::uint64_t kCall = ring::kSlotBytes<CallRecord>;
  constexpr std::uint64_t kDigest = ring::kSlotBytes<StepDigest>;
  add({layout.kept, layout.recent}, kept_, kept);
  add({ring::kFirstArea, layout.digests}, calls_before_ * kCall, calls * kCall);
  add({layout.recent, layout.end}, recent_, recent);
  // The newest was counted before it was written.
  add({layout.digests, layout.kept}, (digests_ - std::min<std::uint64_t>(digests_, 1)) * kDigest,
      digests * kDigest);
  calls_before_ = std::exchange(calls_, calls);
  digests_ = digests;
  kept_ = kept;
  recent_ = recent;
  head_ = std::move(page);
}

std::string RingPieces::next() {
  std::string piece;
  append(piece, PieceHead{.stream = stream_, .number = number_++, .file_bytes = file_bytes_});
  const OpenedFile opened = open_regular(path_);
  while (!to_send_.empty() && piece.size() + sizeof(PartHead) + 8 < kPieceBytes) {
    Range& range = to_send_.front();
    const std::size_t room = kPieceBytes - piece.size() - sizeof(PartHead);
    const std::size_t size = std::min(range.end - range.begin, room);
    if (opened.error.empty()) {
      append_part(piece, range.begin, read_bytes(opened.file.get(), range.begin, size));
    }
    range.begin += size;
    if (range.begin == range.end) to_send_.erase(to_send_.begin());
  }
  if (to_send_.empty() && piece.size() + sizeof(PartHead) + head_.size() <= kPieceBytes) {
    append_part(piece, 0, head_);
    head_.clear();
  }
  return piece;
}

bool RingMirror::take(std::string_view piece) {
  PieceHead head;
  if (!take_front(piece, head) || head.magic != kPieceMagic) return false;
  if (head.number == 0) {
    if (head.file_bytes > kMostImageBytes) return false;
    file_ = make_image(head.file_bytes);
    stream_ = head.stream;
    number_ = 0;
    file_bytes_ = head.file_bytes;
  }
  if (file_ == nullptr || head.stream != stream_ || head.number != number_) return false;
  ++number_;
  PartHead part;
  while (take_front(piece, part)) {
    const bool fits =
        part.bytes <= piece.size() && part.at <= file_bytes_ && part.bytes <= file_bytes_ - part.at;
    if (!fits || !write_all(file_->get(), piece.substr(0, part.bytes), part.at)) return false;
    piece.remove_prefix(part.bytes);
  }
  return piece.empty();
}

}  // namespace ddpscope
