#include "stacks/cfi_program.h"

#include <vector>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Cfa = UnwindRule::Cfa;
using Rbp = UnwindRule::Rbp;

constexpr std::uintptr_t kBegin = 0x1000;

/// Of an ordinary function: CFA = rsp + 8 at its begin, the return address at CFA - 8.
const Bytes kCommon{0x0c, 7, 8, 0x90, 1};

UnwindRule rule_after(const Bytes& instructions, std::uintptr_t delta = 100) {
  CfiProgram program({.code = 1, .data = -8}, kBegin, kBegin + delta);
  program.run_common({kCommon.data(), kCommon.data() + kCommon.size()});
  program.run({instructions.data(), instructions.data() + instructions.size()});
  return program.rule();
}

}  // namespace

TEST_CASE("The rule is the one of the row that holds the address", "[stacks]") {
  // push rbp after 1 byte; mov rbp, rsp after 3 more
  const Bytes prologue{0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6};
  CHECK(rule_after(prologue, 0) == UnwindRule{Cfa::kRsp, Rbp::kSame, 8, 0});
  CHECK(rule_after(prologue, 1) == UnwindRule{Cfa::kRsp, Rbp::kAtCfa, 16, -16});
  CHECK(rule_after(prologue, 3) == UnwindRule{Cfa::kRsp, Rbp::kAtCfa, 16, -16});
  CHECK(rule_after(prologue, 4) == UnwindRule{Cfa::kRbp, Rbp::kAtCfa, 16, -16});
}

TEST_CASE("A remembered row comes back, and a restored register as the CIE has it", "[stacks]") {
  const Bytes epilogue{0x0e, 16, 0x86, 2, 0x0a, 0x0e, 8, 0xc6, 0x41, 0x0b};
  CHECK(rule_after(epilogue, 0) == UnwindRule{Cfa::kRsp, Rbp::kSame, 8, 0});
  CHECK(rule_after(epilogue, 1) == UnwindRule{Cfa::kRsp, Rbp::kAtCfa, 16, -16});
}

TEST_CASE("A realigned frame is followed through the word at rbp", "[stacks]") {
  // def_cfa_expression (breg6 -40; deref), expression rbp (breg6 0)
  CHECK(rule_after({0x0f, 3, 0x76, 0x58, 0x06, 0x10, 6, 2, 0x76, 0}) ==
        UnwindRule{Cfa::kAtRbp, Rbp::kAtRbp, -40, 0});
}

TEST_CASE("The outermost frame is told by its undefined return address", "[stacks]") {
  CHECK(rule_after({0x07, 16}).cfa == Cfa::kOutermost);
}

TEST_CASE("What the rule cannot say is left to a whole unwinder", "[stacks]") {
  CHECK(rule_after({0x0c, 10, 0}).cfa == Cfa::kOther);                // CFA in r10
  CHECK(rule_after({0x0f, 2, 0x77, 8}).cfa == Cfa::kOther);           // the expression rsp + 8
  CHECK(rule_after({0x0f, 4, 0x76, 8, 6, 0x23}).cfa == Cfa::kOther);  // more than a load
  CHECK(rule_after({0x09, 16, 2}).cfa == Cfa::kOther);                // return address in rcx
  CHECK(rule_after({0x90, 2}).cfa == Cfa::kOther);                    // or elsewhere
  CHECK(rule_after({0x3f}).cfa == Cfa::kOther);                       // no instruction of DWARF
  CHECK(rule_after({0x0b}).cfa == Cfa::kOther);                       // nothing was remembered
  CHECK(rule_after({0x0e}).cfa == Cfa::kOther);                       // the program is cut
}

}  // namespace ddpscope
