#include "stacks/rule_cache.h"

#include <memory>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {

using Cfa = UnwindRule::Cfa;
using Rbp = UnwindRule::Rbp;

UnwindRule unpacked(const UnwindRule& rule) {
  const PackedRule packed(rule);
  return {packed.cfa(), packed.rbp(), std::int32_t(packed.cfa_offset()),
          std::int32_t(packed.rbp_offset())};
}

}  // namespace

TEST_CASE("A rule survives being packed into a word", "[stacks]") {
  const UnwindRule rule = GENERATE(
      UnwindRule{Cfa::kRsp, Rbp::kAtCfa, 1 << 18, -2048}, UnwindRule{Cfa::kRsp, Rbp::kSame, 8, 0},
      UnwindRule{Cfa::kAtRbp, Rbp::kAtRbp, -40, 0}, UnwindRule{Cfa::kOutermost, Rbp::kSame, 0, 0});
  CHECK(unpacked(rule) == rule);
}

TEST_CASE("A rule that does not fit into a word is left to a whole unwinder", "[stacks]") {
  CHECK(unpacked({Cfa::kRsp, Rbp::kSame, 1 << 19, 0}).cfa == Cfa::kOther);
  CHECK(unpacked({Cfa::kRsp, Rbp::kAtCfa, 64, -2056}).cfa == Cfa::kOther);
  CHECK(unpacked({Cfa::kRsp, Rbp::kSame, 12, 0}).cfa == Cfa::kOther);
}

TEST_CASE("Only the address that brought a rule finds it", "[stacks]") {
  const auto cache = std::make_unique<RuleCache>();
  constexpr std::uintptr_t kPc = 0x7f1234567890;
  const PackedRule kept(UnwindRule{Cfa::kRbp, Rbp::kAtCfa, 16, -16});
  PackedRule found(0);
  CHECK_FALSE(cache->find(kPc, &found));
  cache->keep(kPc, kept);
  REQUIRE(cache->find(kPc, &found));
  CHECK(found.cfa() == Cfa::kRbp);
  CHECK(found.rbp_offset() == -16);
  for (int bit = 0; bit < 64; ++bit) {
    CHECK_FALSE(cache->find(kPc ^ std::uintptr_t{1} << bit, &found));
  }
  const std::uintptr_t beyond = kPc | std::uintptr_t{1} << 50;
  cache->keep(beyond, kept);
  CHECK_FALSE(cache->find(beyond, &found));
  cache->clear();
  CHECK_FALSE(cache->find(kPc, &found));
}

}  // namespace ddpscope
