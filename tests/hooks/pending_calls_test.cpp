#include "hooks/pending_calls.h"

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
constexpr std::uint64_t kGroup = 7;

/// Three calls of one group, each with 16 bytes.
void add_three(PendingCalls& calls, bool in_order) {
  for (std::uint64_t seq = 1; seq <= 3; ++seq) {
    calls.add({.begin = 0x100 * seq, .end = 0x100 * seq + 16},
              {.group = kGroup, .seq = seq, .in_order = in_order});
  }
}
}  // namespace

TEST_CASE("A pending call is found by any part of the memory that it was given") {
  PendingCalls calls;
  add_three(calls, /*in_order=*/false);
  REQUIRE(calls.find({.begin = 0x208, .end = 0x20c}).has_value());
  CHECK(calls.find({.begin = 0x208, .end = 0x20c})->seq == 2);
  CHECK(calls.find({.begin = 0x1f0, .end = 0x201})->seq == 2);
  CHECK_FALSE(calls.find({.begin = 0x210, .end = 0x220}).has_value());
  CHECK_FALSE(calls.find({.begin = 0x1f0, .end = 0x200}).has_value());
  CHECK_FALSE(calls.find({}).has_value());
}

TEST_CASE("A wait ends the calls before it where these end in order") {
  const bool in_order = GENERATE(true, false);
  PendingCalls calls;
  add_three(calls, in_order);
  calls.mark_told(kGroup, 1);
  CHECK(calls.end(kGroup, 2) == in_order);  // the first one was used before
  CHECK(calls.find({.begin = 0x100, .end = 0x104}).has_value() != in_order);
  CHECK_FALSE(calls.find({.begin = 0x200, .end = 0x204}).has_value());
  CHECK(calls.find({.begin = 0x300, .end = 0x304}).has_value());
  CHECK_FALSE(calls.end(kGroup + 1, 3));
  CHECK(calls.find({.begin = 0x300, .end = 0x304}).has_value());
}

TEST_CASE("A pending call lasts through one backward") {
  PendingCalls calls;
  add_three(calls, /*in_order=*/false);
  calls.backward_begins();
  REQUIRE(calls.find({.begin = 0x100, .end = 0x104}).has_value());
  CHECK(calls.find({.begin = 0x100, .end = 0x104})->is_earlier);
  calls.backward_begins();
  CHECK(calls.empty());
}

}  // namespace ddpscope
