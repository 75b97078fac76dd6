// Several threads write, and others read meanwhile.
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "tests/exchange/ring_files.h"
#include "tests/support/catch.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kCalls = 4000;
constexpr int kThreads = 4;

TEST_CASE("threads keep a place each", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  const RingSizes sizes{.calls = kThreads * kCalls, .digests = 16};
  REQUIRE(open_ring(writer, dir.path(), sizes) == "");
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&writer, thread] {
      for (std::uint64_t i = 0; i < kCalls; ++i) {
        CallRecord call = call_number(thread * kCalls + i);
        call.owner = writer.name("tensor " + std::to_string(i % 50));
        writer.ended(writer.issued(call), static_cast<std::uint32_t>(call.seq),
                     CallState::kCompleted);
      }
    });
  }
  for (auto& thread : threads) thread.join();

  RingReader reader;
  REQUIRE(reader.open(dir / "rank-0.ring") == "");
  REQUIRE(reader.call_count() == kThreads * kCalls);
  std::set<std::uint64_t> seen;
  std::set<NameId> names;
  int whole = 0;
  for (std::uint64_t i = 0; i < kThreads * kCalls; ++i) {
    const auto call = reader.call(i);
    REQUIRE(call);
    seen.insert(call->seq);
    names.insert(call->owner);
    whole += call->waited_us == call->seq && call->state == CallState::kCompleted;
  }
  CHECK(seen.size() == kThreads * kCalls);
  CHECK(names.size() == 50);
  CHECK(whole == kThreads * kCalls);
}

TEST_CASE("a reader believes only what is whole while others write", "[ring]") {
  const TemporaryDir dir;
  RingWriter writer;
  const RingSizes sizes{.calls = 1 << 16, .digests = 16, .kept_bytes = 1024, .recent_bytes = 1024};
  REQUIRE(open_ring(writer, dir.path(), sizes) == "");
  std::atomic<bool> stop = false;
  std::thread writing([&] {
    for (std::int64_t i = 0; !stop; ++i) {
      writer.issued(call_number(static_cast<std::uint64_t>(i)));
      writer.put(digest_number(i));
      writer.put(Blob{.kind = BlobKind::kGradients, .step = i, .bytes = std::to_string(i)});
      writer.beat({.unix_ns = i + 1, .step = i, .progress = static_cast<std::uint64_t>(i)});
    }
  });
  std::size_t believed = 0;
  bool as_written = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int round = 0; round < 20 || believed <= 1000; ++round) {
    if (std::chrono::steady_clock::now() > end) break;
    RingReader reader;
    if (!reader.open(dir / "rank-0.ring").empty()) continue;
    for (auto i = reader.first_call(); i < reader.call_count(); ++i) {
      const auto call = reader.call(i);
      as_written &= !call || equal(*call, call_number(i));
      believed += call.has_value();
    }
    for (const Blob& blob : reader.blobs()) {
      as_written &= blob.bytes == std::to_string(blob.step);
    }
    const Heartbeat beat = reader.heartbeat();
    as_written &= beat.unix_ns == 0 || beat.step == beat.unix_ns - 1;
  }
  stop = true;
  writing.join();
  CHECK(as_written);
  CHECK(believed > 1000);
}

}  // namespace
}  // namespace ddpscope
