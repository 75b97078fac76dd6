// A ring may be cut off, damaged or made to harm its reader.
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "exchange/ring_layout.h"
#include "tests/exchange/ring_files.h"
#include "tests/support/catch.h"

namespace ddpscope {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A ring in which every part is used.
std::string full_ring(const TemporaryDir& dir) {
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  for (std::uint64_t i = 0; i < 40; ++i) writer.issued(call_number(i));
  for (std::int64_t i = 0; i < 40; ++i) writer.put(digest_number(i));
  writer.name("conv1.weight");
  writer.put(Blob{.kind = BlobKind::kTensors, .number = 1, .bytes = "a list"});
  for (std::int64_t step = 1; step <= 60; ++step) {
    writer.put(Blob{.kind = BlobKind::kGradients, .step = step, .bytes = std::string(77, 'g')});
  }
  writer.beat({.unix_ns = 5, .step = 2, .progress = 9});
  return bytes_of(dir / "rank-0.ring");
}

/// Reads all that a ring offers; how much was believed.
std::size_t read_all(const RingReader& reader) {
  std::size_t believed = reader.heartbeat().unix_ns != 0;
  for (auto i = reader.first_call(); i < reader.call_count(); ++i) {
    const auto call = reader.call(i);
    if (!call) continue;
    CHECK(equal(*call, call_number(i)));
    ++believed;
  }
  for (auto i = reader.first_digest(); i < reader.digest_count(); ++i) {
    const auto digest = reader.digest(i);
    if (!digest) continue;
    CHECK(equal(*digest, digest_number(static_cast<std::int64_t>(i))));
    ++believed;
  }
  for (const Blob& blob : reader.blobs()) {
    const bool as_written = blob.bytes == "a list" || blob.bytes == "conv1.weight" ||
                            blob.bytes == std::string(77, 'g');
    CHECK(as_written);
    ++believed;
  }
  const std::string name = reader.name(1);
  CHECK((name.empty() || name == "conv1.weight"));
  return believed;
}

TEST_CASE("of a ring that is cut off all that is whole is read", "[ring]") {
  const TemporaryDir dir;
  const std::string whole = full_ring(dir);
  std::size_t before = 0;
  for (std::size_t length = 0; length <= whole.size(); length += 37) {
    write_bytes(dir / "cut", whole.substr(0, length));
    RingReader reader;
    const std::string error = reader.open(dir / "cut");
    CHECK(error.empty() == (length >= ring::kFirstArea));
    const std::size_t believed = read_all(reader);
    CHECK(believed >= before);
    before = believed;
  }
  write_bytes(dir / "cut", whole);
  RingReader reader;
  REQUIRE(reader.open(dir / "cut") == "");
  CHECK(read_all(reader) >= before);
  CHECK(before > 16 + 16);
}

TEST_CASE("a ring that is cut off while it is read ends nobody", "[ring]") {
  const TemporaryDir dir;
  full_ring(dir);
  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  std::filesystem::resize_file(dir / "rank-0.ring", 10);
  CHECK(read_all(reader) == 1);  // the heartbeat was read with the head
}

TEST_CASE("flipped bits are never believed", "[ring]") {
  const TemporaryDir dir;
  const std::string whole = full_ring(dir);
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> anywhere(ring::kFirstArea, whole.size() - 1);
  for (int round = 0; round < 200; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 50; ++i) damaged[anywhere(random)] ^= static_cast<char>(1 << (i % 8));
    // How a call ended is not part of what is checked.
    for (std::uint64_t i = 0; i < kSmallRing.calls; ++i) {
      const std::size_t ending = ring::kFirstArea + i * ring::kSlotBytes<CallRecord> + 16;
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(ending), 8,
                  damaged.begin() + static_cast<std::ptrdiff_t>(ending));
    }
    write_bytes(dir / "damaged", damaged);
    RingReader reader;
    REQUIRE(reader.open(dir / "damaged") == "");
    read_all(reader);
  }
}

TEST_CASE("a head of random bytes is refused, and counters of random bytes read nothing",
          "[ring]") {
  const TemporaryDir dir;
  const std::string whole = full_ring(dir);
  std::mt19937_64 random(11);
  for (int round = 0; round < 100; ++round) {
    std::string damaged = whole;
    const bool in_head = round % 2 == 0;
    const std::size_t begin = in_head ? 0 : ring::kCallCount;
    const std::size_t end = in_head ? sizeof(ring::Head) : ring::kFirstArea;
    for (std::size_t i = begin; i < end; ++i) damaged[i] = static_cast<char>(random());
    write_bytes(dir / "damaged", damaged);
    RingReader reader;
    CHECK(reader.open(dir / "damaged").empty() != in_head);
    read_all(reader);
  }
}

// With a check that fits: only the values tell.
std::string opened_with(const std::string& whole, const TemporaryDir& dir,
                        const std::function<void(ring::Head&)>& change) {
  ring::Head head;
  std::memcpy(&head, whole.data(), sizeof head);
  change(head);
  head.check = ring::check_of(head);
  std::string changed = whole;
  std::memcpy(changed.data(), &head, sizeof head);
  write_bytes(dir / "changed", changed);
  RingReader reader;
  std::string error = reader.open(dir / "changed");
  read_all(reader);
  return error.empty() ? error : error.substr(error.rfind(": ") + 2);
}

TEST_CASE("the check of one place fits no half of a record of another", "[ring]") {
  // What counts with the place, as the number of a call does, is the first word that is written.
  const auto check = [](std::uint64_t place, std::uint64_t first) {
    const std::array<std::uint64_t, 4> words = {first, 7, 7, 7};
    return ring::check_of(words.data(), sizeof words, place + 1);
  };
  int fitting = 0;
  for (std::uint64_t place = 0; place < 1000; ++place) {
    for (const std::uint64_t later : {place + 2, place + 1024, place + 65536}) {
      fitting += check(place, place + 1) == check(later, later + 1);
    }
  }
  CHECK(fitting == 0);
}

TEST_CASE("sizes beyond all reason are refused", "[ring]") {
  const TemporaryDir dir;
  const std::string whole = full_ring(dir);
  const std::string damaged = "its head is damaged";
  CHECK(opened_with(whole, dir, [](ring::Head&) {}) == "");
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.calls = 0; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.calls = ~0u; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.digests = 0; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.digests = ~0u; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.kept_bytes = ~7u; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.recent_bytes = ~7u; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.run_id_bytes = 257; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.rank = -1; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.world_size = 0; }) == damaged);
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.version = 99; }) ==
        "another version of ddpscope wrote this");
  CHECK(opened_with(whole, dir, [](ring::Head& head) { head.magic = 1; }) == "this is no ring");
}

TEST_CASE("words that are no value of their kind are not believed", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  CallRecord call = call_number(0);
  call.kind = static_cast<CollectiveKind>(200);
  writer.issued(call);
  writer.ended(writer.issued(call_number(1)), 1, static_cast<CallState>(77));
  StepDigest digest = digest_number(1);
  digest.phase = static_cast<Phase>(99);
  writer.put(digest);
  digest = digest_number(2);
  const char no_bool = 5;
  std::memcpy(reinterpret_cast<char*>(&digest) + offsetof(StepDigest, averages), &no_bool, 1);
  writer.put(digest);
  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  CHECK_FALSE(reader.call(0));
  CHECK_FALSE(reader.call(1));
  CHECK_FALSE(reader.digest(0));
  char byte = 0;
  const StepDigest read = reader.digest(1).value();
  std::memcpy(&byte, reinterpret_cast<const char*>(&read) + offsetof(StepDigest, averages), 1);
  CHECK(byte == 1);
}

TEST_CASE("frames that overlap cost no more than their area", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  const RingSizes sizes{.calls = 16, .digests = 16, .kept_bytes = 64, .recent_bytes = 4 << 20};
  REQUIRE(open_ring(writer, dir.path(), sizes) == "");
  writer.put(Blob{.kind = BlobKind::kGradients, .step = 1, .bytes = std::string(4'000'000, 'x')});
  std::string bytes = bytes_of(dir / "rank-0.ring");
  const std::size_t area = ring::layout_of(sizes).recent;
  // Every 40 bytes one that says it reaches almost to the end.
  for (std::size_t at = 0; at + 3'000'000 < (4 << 20); at += sizeof(ring::Frame)) {
    const ring::Frame frame{.at = at, .kind = 3, .bytes = 3'000'000 - sizeof(ring::Frame)};
    std::memcpy(bytes.data() + area + at, &frame, sizeof frame);
  }
  write_bytes(dir / "hostile", bytes);
  RingReader reader;
  REQUIRE(reader.open(dir / "hostile") == "");
  CHECK(reader.blobs().empty());  // 30,000 frames of 3 MB would take a minute
}

TEST_CASE("what is no regular file is refused at once", "[ring]") {
  const TemporaryDir dir;
  RingReader reader;
  CHECK(reader.open(dir / "absent") == (dir / "absent") + ": No such file or directory");
  REQUIRE(::mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK(reader.open(dir / "pipe") == (dir / "pipe") + ": this is no regular file");
  CHECK(reader.open(dir.path()) == dir.path() + ": this is no regular file");
  full_ring(dir);
  std::filesystem::create_symlink(dir / "rank-0.ring", dir / "link");
  CHECK_FALSE(reader.open(dir / "link").empty());
  CHECK(reader.call_count() == 0);
}

}  // namespace
}  // namespace ddpscope
