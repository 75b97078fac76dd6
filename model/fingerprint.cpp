#include "model/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "model/fact_keys.h"

namespace ddpscope {
namespace {

// FNV-1a; a zero byte ends each part, so that moving a letter between parts changes the result.
void add(std::uint64_t& hash, std::string_view part) {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  for (const char letter : part) hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  hash *= kPrime;
}

std::string_view cause_of(const Finding& finding) {
  auto cause = std::ranges::find(finding.facts, fact::kCause, &Fact::key);
  if (cause == finding.facts.end()) {
    cause = std::ranges::find(finding.facts, fact::kKind, &Fact::key);
  }
  if (cause == finding.facts.end()) return {};
  const auto* text = std::get_if<std::string>(&cause->value);
  return text == nullptr ? std::string_view() : *text;
}

}  // namespace

std::string fingerprint_of(const Finding& finding) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::string_view part :
       {std::string_view(finding.id), std::string_view(finding.model),
        std::string_view(finding.module_path), std::string_view(finding.subject),
        std::string_view(finding.op), cause_of(finding)}) {
    add(hash, part);
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace ddpscope
