#include "hooks/last_writes.h"

#include <memory>

#include "tests/support/catch.h"

namespace ddpscope {

TEST_CASE("The last write to a storage is known, and that another was never written") {
  const auto writes = std::make_unique<LastWrites>();
  writes->put(0x1000, 3);
  writes->put(0x2000, 4);
  writes->put(0x1000, 5);
  CHECK(writes->of(0x1000).number == 5);
  CHECK(writes->of(0x2000).number == 4);
  CHECK(writes->of(0x3000).number == 0);
  CHECK(writes->of(0x3000).is_known);
}

TEST_CASE("Of more storages than there is room for, what is said is never too early") {
  const auto writes = std::make_unique<LastWrites>();
  constexpr std::uint64_t kStorages = 4 * LastWrites::kSets * LastWrites::kWays;
  for (std::uint64_t i = 1; i <= kStorages; ++i) writes->put(i * 0x40, i);
  std::uint64_t known = 0;
  for (std::uint64_t i = 1; i <= kStorages; ++i) {
    const LastWrites::Last last = writes->of(i * 0x40);
    if (last.is_known) ++known;
    const bool is_right = last.is_known ? last.number == i : last.number >= i;
    if (!is_right) FAIL("storage " << i << ": " << last.number);
  }
  CHECK(known == kStorages / 4);
}

TEST_CASE("Two thousand storages are all known") {
  const auto writes = std::make_unique<LastWrites>();
  constexpr std::uint64_t kFirst = 0x7f2a'4c00'1280;
  for (std::uint64_t i = 0; i < 2000; ++i) writes->put(kFirst + i * 0x70, i + 1);
  for (std::uint64_t i = 0; i < 2000; ++i) CHECK(writes->of(kFirst + i * 0x70).number == i + 1);
}

}  // namespace ddpscope
