#include "checks/norm_call_text.h"

#include <fmt/format.h>

#include <array>

#include "checks/call_text.h"

namespace ddpscope {

std::string_view phase_of_norm(const ComparedCall& call) {
  constexpr std::array<std::string_view, 5> kWords = {"another call", "forward", "backward",
                                                      "second backward", "layers"};
  return kWords[static_cast<std::size_t>(norm_phase(call.record.norm_call)) % kWords.size()];
}

bool is_list_of_layers(const ComparedCall& call) {
  return norm_phase(call.record.norm_call) == NormPhase::kLayers;
}

std::string call_of_norm(const ComparedCall& call, bool with_size) {
  const CallRecord& record = call.record;
  if (record.norm_call == 0) return call_words(call, /*with_reduce=*/false);
  if (is_list_of_layers(call)) return fmt::format("\"{}\"", call.owner);
  std::string words = fmt::format("{} of {}, its call {}", phase_of_norm(call), call.owner,
                                  norm_number(record.norm_call));
  if (with_size) words += fmt::format(", with {} channels", record.elements);
  return words;
}

}  // namespace ddpscope
