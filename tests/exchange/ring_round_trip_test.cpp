// What is written is read back equal, also once a ring went round.
#include <sys/stat.h>

#include <fstream>

#include "tests/exchange/ring_files.h"
#include "tests/support/catch.h"

namespace ddpscope {
namespace {

TEST_CASE("a ring reads back what was written into it", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path(), kSmallRing, 3) == "");
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(writer.issued(call_number(i)) == i);
  for (std::int64_t i = 0; i < 5; ++i) writer.put(digest_number(i));
  writer.beat({.unix_ns = 5, .step = 2, .progress = 9, .module = 1, .phase = Phase::kOptimizer});
  writer.beat({.unix_ns = 6, .step = 3, .progress = 10, .phase = Phase::kExit, .ended = true});

  RingReader reader;
  REQUIRE(reader.open(dir / "rank-3.ring") == "");
  CHECK(reader.head().run_id == "run");
  CHECK(reader.head().rank == 3);
  CHECK(reader.head().world_size == 4);
  CHECK(reader.head().pid == 42);
  CHECK(reader.call_count() == 5);
  CHECK(reader.first_call() == 0);
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(equal(reader.call(i).value(), call_number(i)));
  CHECK_FALSE(reader.call(5));
  CHECK(reader.digest_count() == 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    CHECK(equal(reader.digest(static_cast<std::uint64_t>(i)).value(), digest_number(i)));
  }
  CHECK(reader.heartbeat().unix_ns == 6);
  CHECK(reader.heartbeat().step == 3);
  CHECK(reader.heartbeat().progress == 10);
  CHECK(reader.heartbeat().phase == Phase::kExit);
  CHECK(reader.heartbeat().ended);
}

TEST_CASE("steps that a rank made alone are not shown, and those after it count from there",
          "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  for (std::int32_t step = 0; step <= 5; ++step) {
    writer.put(StepDigest{.step = step, .backwards = 2 * step, .call_count = step});
    writer.put(Blob{.kind = BlobKind::kGradients, .step = step, .bytes = "g"});
  }
  writer.put(Blob{.kind = BlobKind::kBatch, .step = 2, .bytes = "b"});
  writer.put(Blob{.kind = BlobKind::kTensors, .step = 5, .bytes = "t"});  // of what 4 began with
  writer.issued({.step = 1});
  writer.issued({.step = 5});
  writer.beat({.unix_ns = 6, .step = 6});
  writer.put(LoneSteps{.steps = 3, .backwards = 6, .call_count = 1});
  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  for (std::uint64_t place = 0; place < 4; ++place) CHECK_FALSE(reader.digest(place));
  CHECK(reader.digest(4)->step == 1);
  CHECK(reader.digest(5)->step == 2);
  CHECK(reader.digest(5)->backwards == 4);
  CHECK(reader.digest(5)->call_count == 4);
  CHECK(reader.call(0)->step == 0);
  CHECK(reader.call(1)->step == 2);
  CHECK(reader.heartbeat().step == 3);
  std::vector<std::int64_t> steps;
  for (const Blob& blob : reader.blobs()) steps.push_back(blob.step);
  CHECK(steps == std::vector<std::int64_t>{1, 1, 2, 0});  // those that are kept come first
}

TEST_CASE("a new ring is private and says nothing", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  struct stat info = {};
  REQUIRE(::stat((dir / "rank-0.ring").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(info.st_blocks * 512 >= info.st_size);

  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  CHECK(reader.call_count() == 0);
  CHECK(reader.blobs().empty());
  CHECK(reader.heartbeat().unix_ns == 0);
  CHECK(reader.name(1) == "");
}

TEST_CASE("a ring that went round holds the last calls and digests", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  for (std::uint64_t i = 0; i < 1000; ++i) writer.issued(call_number(i));
  for (std::int64_t i = 0; i < 50; ++i) writer.put(digest_number(i));
  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  CHECK(reader.first_call() == 984);
  CHECK_FALSE(reader.call(983));
  for (std::uint64_t i = 984; i < 1000; ++i) CHECK(equal(reader.call(i).value(), call_number(i)));
  CHECK(reader.first_digest() == 34);
  CHECK_FALSE(reader.digest(33));
  CHECK(reader.digest(49).value().step == 49);
}

TEST_CASE("the end of a call goes to that call alone", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  for (std::uint64_t i = 0; i < 17; ++i) writer.issued(call_number(i));
  writer.ended(3, 250, CallState::kCompleted);
  writer.ended(4, 7, CallState::kFailed);
  writer.ended(4, 8, CallState::kCompleted);  // it failed before
  writer.ended(5, 0, CallState::kCompleted);
  writer.ended(5, 31, CallState::kCompleted);
  writer.ended(0, 99, CallState::kFailed);  // its slot has call 16
  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  CHECK(reader.call(3).value().state == CallState::kCompleted);
  CHECK(reader.call(3).value().waited_us == 250);
  CHECK(reader.call(4).value().state == CallState::kFailed);
  CHECK(reader.call(4).value().waited_us == 8);
  CHECK(reader.call(5).value().state == CallState::kCompleted);
  CHECK(reader.call(5).value().waited_us == 31);
  CHECK(reader.call(6).value().state == CallState::kIssued);
  CHECK(reader.call(16).value().state == CallState::kIssued);
  CHECK(reader.call(16).value().waited_us == 0);
}

TEST_CASE("a name has one number, and none without room", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  const NameId conv = writer.name("conv1.weight");
  CHECK(conv != 0);
  CHECK(writer.name("conv1.bias") != conv);
  CHECK(writer.name("conv1.weight") == conv);
  CHECK(writer.name("") == 0);
  const NameId cut = writer.name(std::string(100'000, 'x'));
  CHECK(cut == 0);
  for (int i = 0; i < 100; ++i) writer.name("name " + std::to_string(i));
  CHECK(writer.name("one more") == 0);
  CHECK(writer.name("conv1.weight") == conv);

  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  CHECK(reader.name(conv) == "conv1.weight");
  CHECK(reader.name(0) == "");
  CHECK(reader.name(10'000) == "");
}

TEST_CASE("kept lists stay and recent ones give way to later ones", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  REQUIRE(open_ring(writer, dir.path()) == "");
  writer.put(Blob{.kind = BlobKind::kTensors, .number = 1, .bytes = "a list"});
  for (std::int64_t step = 1; step <= 300; ++step) {
    const std::string bytes(static_cast<std::size_t>(step % 90),
                            static_cast<char>('a' + step % 20));
    writer.put(Blob{.kind = BlobKind::kGradients, .number = 2, .step = step, .bytes = bytes});
  }
  writer.put(Blob{.kind = BlobKind::kFingerprints, .step = 301, .bytes = std::string(2000, 'x')});

  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  const std::vector<Blob> blobs = reader.blobs();
  REQUIRE(blobs.size() > 5);
  CHECK(blobs[0].kind == BlobKind::kTensors);
  CHECK(blobs[0].number == 1);
  CHECK(blobs[0].bytes == "a list");
  CHECK(blobs.back().step == 300);
  for (std::size_t i = 1; i < blobs.size(); ++i) {
    const std::int64_t step = blobs[i].step;
    if (i > 1) CHECK(step == blobs[i - 1].step + 1);
    CHECK(blobs[i].kind == BlobKind::kGradients);
    CHECK(blobs[i].bytes ==
          std::string(static_cast<std::size_t>(step % 90), static_cast<char>('a' + step % 20)));
  }
}

TEST_CASE("a ring that cannot be made leaves a text, and calls that do nothing", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  std::ofstream(dir / "elsewhere") << "kept";
  SECTION("since there is one") { std::ofstream(dir / "rank-0.ring") << "another's"; }
  SECTION("since there is a link") {
    std::filesystem::create_symlink(dir / "elsewhere", dir / "rank-0.ring");
  }
  CHECK(open_ring(writer, dir.path()) == "rank-0.ring: File exists");
  CHECK(std::filesystem::file_size(dir / "elsewhere") == 4);
  CHECK(std::filesystem::file_size(dir / "rank-0.ring") < 10);
  CHECK(writer.issued(call_number(1)) == 0);
  writer.ended(0, 1, CallState::kCompleted);
  CHECK(writer.name("x") == 0);
  writer.put(digest_number(1));
  writer.put(Blob{.bytes = "x"});
  writer.beat({});
}

}  // namespace
}  // namespace ddpscope
