#pragma once

#include <cstdint>

#include "stacks/byte_reader.h"
#include "stacks/unwind_rule.h"

namespace ddpscope {

/// The alignment factors of a CIE.
struct CfiFactors {
  std::uint64_t code = 1;
  std::int64_t data = 1;
};

/// Runs the instructions of a CIE, then those of an FDE, up to one address.
class CfiProgram {
 public:
  CfiProgram(CfiFactors factors, std::uintptr_t begin, std::uintptr_t wanted) noexcept
      : factors_(factors), at_(begin), wanted_(wanted) {}

  void run_common(ByteReader instructions) noexcept;
  void run(ByteReader instructions) noexcept;
  UnwindRule rule() const noexcept;

 private:
  enum class Where : std::uint8_t { kSame, kAtCfa, kAtRbp, kUndefined, kOther };
  struct Place {
    Where where = Where::kSame;
    std::int64_t offset = 0;
  };
  struct Row {
    std::uint64_t cfa_register = 0;
    std::int64_t cfa_offset = 0;
    bool cfa_at_rbp = false;
    bool cfa_other = false;
    Place rbp;
    Place return_address;
  };

  void step(ByteReader& in) noexcept;
  void step_cfa(std::uint8_t code, ByteReader& in) noexcept;
  void step_register(std::uint8_t code, ByteReader& in) noexcept;
  void advance(std::uint64_t delta) noexcept { at_ += delta * factors_.code; }
  void place(std::uint64_t number, Place place) noexcept;
  void restore(std::uint64_t number) noexcept;
  void remember() noexcept;
  void recall() noexcept;
  static Place expression(ByteReader& in, bool dereferenced) noexcept;

  CfiFactors factors_;
  std::uintptr_t at_;
  std::uintptr_t wanted_;
  Row row_;
  Row initial_;
  Row remembered_[4];
  int depth_ = 0;
  bool understood_ = true;
};

}  // namespace ddpscope
