#include "checks/call_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace ddpscope {

std::string_view call_word(CollectiveKind kind) {
  constexpr std::array<std::string_view, 11> kWords = {
      "all_reduce",     "broadcast",  "reduce", "all_gather", "gather", "scatter",
      "reduce_scatter", "all_to_all", "send",   "receive",    "barrier"};
  return kWords[static_cast<std::size_t>(kind)];
}

std::string_view reduce_word(ReduceKind reduce) {
  constexpr std::array<std::string_view, 10> kWords = {"",    "sum", "average", "product", "min",
                                                       "max", "and", "or",      "xor",     "other"};
  return kWords[static_cast<std::size_t>(reduce)];
}

std::string call_words(const ComparedCall& call, bool with_reduce) {
  const CallRecord& record = call.record;
  std::string words(call_word(record.kind));
  if (with_reduce && record.reduce != ReduceKind::kNone) {
    words += fmt::format("({})", reduce_word(record.reduce));
  }
  if (record.kind != CollectiveKind::kBarrier) {
    words += fmt::format(" {}[{}]", call.dtype, record.elements);
  }
  if (record.list > 1) words += fmt::format(" in {} tensors", record.list);
  if (record.root >= 0) words += fmt::format(" from root {}", record.root);
  if (!call.owner.empty()) words += fmt::format(" of {}", call.owner);
  if (!call.module.empty()) words += fmt::format(" (in {})", call.module);
  return words;
}

std::string numbered_call(const ComparedCall& call) {
  std::string words = fmt::format("{} {}", call_word(call.record.kind), call.record.seq);
  if (!call.owner.empty()) words += " of " + call.owner;
  return words;
}

std::string last_call_words(const RankStand& stand) {
  std::string words = numbered_call(stand.last);
  if (stand.last.record.state == CallState::kFailed) return words + ", which threw";
  return stand.is_open ? words + ", which was not seen to return" : words;
}

std::string duration_words(std::int64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 10'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000.0);
  return fmt::format("{} s", (ms + 500) / 1000);
}

const CallSide& odd_side(const CallsDiffer& difference) {
  const auto& sides = difference.sides;
  const bool is_tie = sides.size() == 2 && sides[0].ranks.size() == sides[1].ranks.size();
  const bool first_repeats = is_tie && sides[0].as_before && !sides[1].as_before;
  return first_repeats ? sides[1] : sides[0];
}

const CallSide& usual_side(const CallsDiffer& difference, const CallSide& odd) {
  return &difference.sides.back() == &odd ? difference.sides.front() : difference.sides.back();
}

bool is_earlier(const CallsDiffer& a, const CallsDiffer& b) {
  const auto time = [](const CallsDiffer& one) { return one.sides.front().call.record.unix_ns; };
  return std::tuple(a.step, time(a)) < std::tuple(b.step, time(b));
}

bool is_of_norm(const CallsDiffer& difference) {
  return std::ranges::any_of(difference.sides,
                             [](const CallSide& side) { return side.call.record.norm_call != 0; });
}

void set_place(Finding& finding, const ComparedCall& call) {
  constexpr std::string_view kGradient = ".grad";
  finding.module_path = call.module;
  std::string owner = call.owner;
  if (owner.empty()) return;
  if (owner.ends_with(kGradient)) owner.resize(owner.size() - kGradient.size());
  const std::size_t dot = owner.rfind('.');
  finding.subject = dot == std::string::npos ? owner : owner.substr(dot + 1);
  if (dot != std::string::npos) finding.module_path = owner.substr(0, dot);
}

}  // namespace ddpscope
