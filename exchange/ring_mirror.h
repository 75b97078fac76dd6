#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/rank_ring.h"
#include "records/file_descriptor.h"

namespace ddpscope {

// Note [A ring over a store]
// Where ranks have no common folder, each sends the bytes of its own ring that are new, and who
// compares keeps an image of that ring in memory. The image is read as the ring is: what has not
// arrived, or was overwritten on the way, does not fit its check.

inline constexpr std::size_t kPieceBytes = 1 << 20;
/// Of one image. It takes only the memory of what has arrived.
inline constexpr std::size_t kMostImageBytes = 1 << 28;

/// Says piece by piece what is new in the ring of this rank. From one thread at a time.
class RingPieces {
 public:
  explicit RingPieces(std::string path) : path_(std::move(path)) {}

  /// All that stands in the ring now is to be sent. Once what was to be sent before is.
  void take_stock();
  bool empty() const { return head_.empty(); }
  /// The next piece, of at most kPieceBytes. The last of a stock has the head of the ring, which
  /// counts only what went before it.
  std::string next();

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// Of an area that is written round and round: bytes `from` to `to` of all that were written.
  void add(Range area, std::uint64_t from, std::uint64_t to);

  std::string path_;
  std::uint64_t stream_ = 0;
  std::uint64_t number_ = 0;  // of the next piece
  std::uint64_t file_bytes_ = 0;
  std::vector<char> head_;      // of the stock
  std::vector<Range> to_send_;  // before the head, in this order
  // What the stocks before had. Calls end later than they begin, and so go out twice.
  std::uint64_t calls_before_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t digests_ = 0;
  std::uint64_t kept_ = 0;
  std::uint64_t recent_ = 0;
};

/// The ring of another rank as far as its pieces have arrived. From one thread at a time; `file`
/// may be read by others meanwhile.
class RingMirror {
 public:
  /// False where the piece is none, is of another sender or does not follow the one before.
  bool take(std::string_view piece);
  /// Null before the first piece.
  const std::shared_ptr<const FileDescriptor>& file() const { return file_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  std::shared_ptr<const FileDescriptor> file_;
  std::uint64_t stream_ = 0;
  std::uint64_t number_ = 0;  // of the piece that comes next
  std::uint64_t file_bytes_ = 0;
};

/// The image of the ring of one rank.
struct RingImage {
  std::int64_t rank = 0;
  std::shared_ptr<const FileDescriptor> file;
};

}  // namespace ddpscope
