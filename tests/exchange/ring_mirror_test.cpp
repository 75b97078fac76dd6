// What one rank sends of its ring is the ring to another one.
#include "exchange/ring_mirror.h"

#include "exchange/ring_steps.h"
#include "tests/exchange/ring_files.h"
#include "tests/support/catch.h"

namespace ddpscope::test::ring_mirror_test {
namespace {

/// A ring and its image elsewhere.
struct Sent {
  explicit Sent(const RingSizes& sizes = kSmallRing) : pieces(dir / "rank-0.ring") {
    REQUIRE(open_ring(writer, dir.path(), sizes) == "");
  }
  void send() {
    pieces.take_stock();
    while (!pieces.empty()) REQUIRE(mirror.take(pieces.next()));
  }
  void write(std::uint64_t number) {
    writer.ended(writer.issued(call_number(number)), 7, CallState::kCompleted);
    writer.put(digest_number(static_cast<std::int64_t>(number)));
    writer.name("name " + std::to_string(number % 5));
    writer.put(Blob{.kind = BlobKind::kGradients,
                    .step = static_cast<std::int64_t>(number),
                    .bytes = std::string(8 + number % 40, 'g')});
    writer.beat({.unix_ns = static_cast<std::int64_t>(number) + 1, .progress = number});
  }
  RingReader ring() const {
    RingReader reader;
    REQUIRE(reader.open(dir / "rank-0.ring").empty());
    return reader;
  }
  RingReader image() const {
    RingReader reader;
    REQUIRE(reader.open(mirror.file()).empty());
    return reader;
  }

  TemporaryDir dir;
  RingWriter writer;
  RingPieces pieces;
  RingMirror mirror;
};

void check_equal(const RingReader& ring, const RingReader& image) {
  CHECK(image.head().run_id == ring.head().run_id);
  CHECK(image.heartbeat().unix_ns == ring.heartbeat().unix_ns);
  REQUIRE(image.call_count() == ring.call_count());
  for (std::uint64_t i = ring.first_call(); i < ring.call_count(); ++i) {
    REQUIRE(image.call(i).has_value());
    CHECK(equal(*image.call(i), *ring.call(i)));
  }
  REQUIRE(image.digest_count() == ring.digest_count());
  for (std::uint64_t i = ring.first_digest(); i < ring.digest_count(); ++i) {
    REQUIRE(image.digest(i).has_value());
    CHECK(equal(*image.digest(i), *ring.digest(i)));
  }
  const auto sent = ring.blobs();
  const auto arrived = image.blobs();
  REQUIRE(arrived.size() == sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CHECK(arrived[i].kind == sent[i].kind);
    CHECK(arrived[i].step == sent[i].step);
    CHECK(arrived[i].bytes == sent[i].bytes);
  }
}
}  // namespace

TEST_CASE("The image of a ring says what the ring says, also after it went round", "[ring]") {
  Sent sent;
  sent.send();
  check_equal(sent.ring(), sent.image());
  std::uint64_t number = 0;
  for (const int more : {1, 3, 0, 15, 16, 40, 2}) {
    for (int i = 0; i < more; ++i) sent.write(number++);
    sent.send();
    check_equal(sent.ring(), sent.image());
  }
}

TEST_CASE("A large ring comes in pieces, and counts nothing before it is there", "[ring]") {
  Sent sent({.calls = 1 << 15, .digests = 64, .kept_bytes = 4096, .recent_bytes = 4096});
  sent.send();
  for (std::uint64_t i = 0; i < 30'000; ++i) sent.write(i);
  sent.pieces.take_stock();
  std::size_t count = 0;
  while (!sent.pieces.empty()) {
    CHECK(sent.image().call_count() == 0);
    const std::string piece = sent.pieces.next();
    CHECK(piece.size() <= kPieceBytes);
    REQUIRE(sent.mirror.take(piece));
    ++count;
  }
  CHECK(count >= 3);
  check_equal(sent.ring(), sent.image());
}

TEST_CASE("How a call ended arrives with the next stock", "[ring]") {
  Sent sent;
  const auto place = sent.writer.issued(call_number(0));
  sent.send();
  CHECK(sent.image().call(0)->state == CallState::kIssued);
  sent.writer.ended(place, 9, CallState::kCompleted);
  sent.send();
  CHECK(sent.image().call(0)->state == CallState::kCompleted);
  CHECK(sent.image().call(0)->waited_us == 9);
}

TEST_CASE("A sender that begins anew has an image of its own", "[ring]") {
  Sent first;
  first.write(1);
  first.send();
  const auto before = first.mirror.file();
  Sent second;
  second.write(2);
  second.write(3);
  second.pieces.take_stock();
  while (!second.pieces.empty()) REQUIRE(first.mirror.take(second.pieces.next()));
  CHECK(first.mirror.file() != before);
  check_equal(second.ring(), first.image());
}

TEST_CASE("What is no piece of this ring in its turn is not taken", "[ring]") {
  Sent sent;
  sent.write(1);
  sent.pieces.take_stock();
  std::string piece = sent.pieces.next();
  RingMirror mirror;
  SECTION("nothing") { piece.clear(); }
  SECTION("other bytes") { piece.assign(100, 'x'); }
  SECTION("another magic number") { piece[0] ^= 1; }
  SECTION("one that does not follow") { piece[16] = 1; }
  SECTION("one that is cut off") { piece.resize(piece.size() - 1); }
  SECTION("a place behind the end") { piece[32 + 6] = 1; }
  SECTION("more bytes than there are") { piece[40 + 6] = 1; }
  SECTION("a file of too many bytes") { piece[24 + 6] = 1; }
  CHECK_FALSE(mirror.take(piece));
}

TEST_CASE("Of a ring that is gone nothing is sent", "[ring]") {
  RingPieces pieces("/nonexistent/rank-0.ring");
  pieces.take_stock();
  CHECK(pieces.empty());
}

}  // namespace ddpscope::test::ring_mirror_test
