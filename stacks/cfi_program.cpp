#include "stacks/cfi_program.h"

#include <iterator>
#include <limits>

namespace ddpscope {
namespace {

constexpr std::uint64_t kRbpNumber = 6;
constexpr std::uint64_t kRspNumber = 7;
constexpr std::uint64_t kReturnNumber = 16;
constexpr std::uint8_t kOpBreg6 = 0x76;
constexpr std::uint8_t kOpDeref = 0x06;

bool fits(std::int64_t offset) {
  return offset >= std::numeric_limits<std::int32_t>::min() &&
         offset <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

void CfiProgram::run_common(ByteReader instructions) noexcept {
  const std::uintptr_t wanted = wanted_;
  wanted_ = std::numeric_limits<std::uintptr_t>::max();
  run(instructions);
  wanted_ = wanted;
  initial_ = row_;
}

void CfiProgram::run(ByteReader instructions) noexcept {
  while (understood_ && !instructions.done() && at_ <= wanted_) step(instructions);
  understood_ = understood_ && !instructions.failed();
}

void CfiProgram::step(ByteReader& in) noexcept {
  // An advance beyond the wanted address ends the run: the row before it is the answer.
  const std::uint8_t code = in.read<std::uint8_t>();
  switch (code >> 6) {
    case 1:
      return advance(code & 0x3f);
    case 2:
      return place(code & 0x3f, {Where::kAtCfa, std::int64_t(in.uleb()) * factors_.data});
    case 3:
      return restore(code & 0x3f);
  }
  switch (code) {
    case 0x00:  // nop
      return;
    case 0x02:
      return advance(in.read<std::uint8_t>());
    case 0x03:
      return advance(in.read<std::uint16_t>());
    case 0x04:
      return advance(in.read<std::uint32_t>());
    case 0x0a:
      return remember();
    case 0x0b:
      return recall();
    case 0x2e:  // GNU_args_size
      in.uleb();
      return;
  }
  const bool of_cfa = (code >= 0x0c && code <= 0x0f) || code == 0x12 || code == 0x13;
  return of_cfa ? step_cfa(code, in) : step_register(code, in);
}

void CfiProgram::step_cfa(std::uint8_t code, ByteReader& in) noexcept {
  if (code == 0x0f) {  // def_cfa_expression
    const Place where = expression(in, /*dereferenced=*/true);
    row_.cfa_at_rbp = where.where == Where::kAtRbp;
    row_.cfa_other = !row_.cfa_at_rbp;
    row_.cfa_offset = where.offset;
    return;
  }
  if (code == 0x0c || code == 0x0d || code == 0x12) row_.cfa_register = in.uleb();
  if (code == 0x0c || code == 0x0e) row_.cfa_offset = std::int64_t(in.uleb());
  if (code == 0x12 || code == 0x13) row_.cfa_offset = in.sleb() * factors_.data;
  row_.cfa_at_rbp = false;
  row_.cfa_other = false;
}

void CfiProgram::step_register(std::uint8_t code, ByteReader& in) noexcept {
  const std::uint64_t number = in.uleb();
  switch (code) {
    case 0x05:  // offset_extended
      return place(number, {Where::kAtCfa, std::int64_t(in.uleb()) * factors_.data});
    case 0x06:  // restore_extended
      return restore(number);
    case 0x07:
      return place(number, {Where::kUndefined, 0});
    case 0x08:
      return place(number, {Where::kSame, 0});
    case 0x09:  // register
    case 0x14:  // val_offset
      in.uleb();
      return place(number, {Where::kOther, 0});
    case 0x10:
      return place(number, expression(in, /*dereferenced=*/false));
    case 0x11:  // offset_extended_sf
      return place(number, {Where::kAtCfa, in.sleb() * factors_.data});
    case 0x15:  // val_offset_sf
      in.sleb();
      return place(number, {Where::kOther, 0});
    case 0x16:  // val_expression
      in.skip(in.uleb());
      return place(number, {Where::kOther, 0});
    default:
      understood_ = false;
  }
}

CfiProgram::Place CfiProgram::expression(ByteReader& in, bool dereferenced) noexcept {
  const std::uint64_t bytes = in.uleb();
  ByteReader body(in.at(), in.end());
  in.skip(bytes);
  if (in.failed() || body.read<std::uint8_t>() != kOpBreg6) return {Where::kOther, 0};
  const std::int64_t offset = body.sleb();
  if (dereferenced && body.read<std::uint8_t>() != kOpDeref) return {Where::kOther, 0};
  if (body.at() != in.at()) return {Where::kOther, 0};
  return {Where::kAtRbp, offset};
}

void CfiProgram::place(std::uint64_t number, Place place) noexcept {
  if (number == kRbpNumber) row_.rbp = place;
  if (number == kReturnNumber) row_.return_address = place;
}

void CfiProgram::restore(std::uint64_t number) noexcept {
  if (number == kRbpNumber) row_.rbp = initial_.rbp;
  if (number == kReturnNumber) row_.return_address = initial_.return_address;
}

void CfiProgram::remember() noexcept {
  understood_ = understood_ && depth_ < int(std::size(remembered_));
  if (understood_) remembered_[depth_++] = row_;
}

void CfiProgram::recall() noexcept {
  understood_ = understood_ && depth_ > 0;
  if (understood_) row_ = remembered_[--depth_];
}

UnwindRule CfiProgram::rule() const noexcept {
  const UnwindRule other{.cfa = UnwindRule::Cfa::kOther};
  if (!understood_) return other;
  if (row_.return_address.where == Where::kUndefined) return {.cfa = UnwindRule::Cfa::kOutermost};
  if (row_.return_address.where != Where::kAtCfa || row_.return_address.offset != -8) return other;
  const bool by_register = row_.cfa_register == kRspNumber || row_.cfa_register == kRbpNumber;
  if (row_.cfa_other || (!row_.cfa_at_rbp && !by_register)) return other;
  if (!fits(row_.cfa_offset) || !fits(row_.rbp.offset)) return other;

  UnwindRule rule{.cfa_offset = std::int32_t(row_.cfa_offset),
                  .rbp_offset = std::int32_t(row_.rbp.offset)};
  if (row_.cfa_at_rbp) {
    rule.cfa = UnwindRule::Cfa::kAtRbp;
  } else {
    const bool by_rsp = row_.cfa_register == kRspNumber;
    rule.cfa = by_rsp ? UnwindRule::Cfa::kRsp : UnwindRule::Cfa::kRbp;
  }
  switch (row_.rbp.where) {
    case Where::kSame:
    case Where::kUndefined:
      rule.rbp = UnwindRule::Rbp::kSame;
      return rule;
    case Where::kAtCfa:
      rule.rbp = UnwindRule::Rbp::kAtCfa;
      return rule;
    case Where::kAtRbp:
      rule.rbp = UnwindRule::Rbp::kAtRbp;
      return rule;
    case Where::kOther:
      return other;
  }
  return other;
}

}  // namespace ddpscope
