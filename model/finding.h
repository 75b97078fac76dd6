#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddpscope {

enum class Severity : std::uint8_t { kNote, kWarning, kError };
enum class Confidence : std::uint8_t { kLow, kMedium, kHigh };
enum class EvidenceStatus : std::uint8_t { kUndecided, kHypothesis, kSupported, kEstablished };
enum class CausalRole : std::uint8_t { kUnknown, kInitiating, kCascade };
enum class Phase : std::uint8_t { kInit, kForward, kBackward, kReduce, kOptimizer, kExit };
enum class Applicability : std::uint8_t { kSafe, kLikely, kNeedsDecision };
enum class SiteState : std::uint8_t { kComplete, kEvicted, kUnsymbolized };

struct Fix {
  std::string text;
  Applicability applicability = Applicability::kLikely;
};

struct Frame {
  std::string function;
  std::string file;
  std::int64_t line = 0;
  std::string module;
  std::uint64_t offset = 0;
  std::string source;
  std::string build_id;
  bool library = false;  ///< of LibTorch or the system, or inlined from one of their headers
};

struct Site {
  std::string role;  ///< saved, changed, used, created, registered or called
  std::vector<Frame> frames;
  SiteState state = SiteState::kComplete;
};

using FactScalar = std::variant<bool, std::int64_t, double, std::string>;
using FactValue = std::variant<bool, std::int64_t, double, std::string, std::vector<FactScalar>>;
struct Fact {
  std::string key;  ///< from model/fact_keys.h
  FactValue value;
};

/// One thing that is wrong with the user's training; contract.md section 4. Plain data.
struct Finding {
  std::string id;
  Severity severity = Severity::kWarning;
  Confidence confidence = Confidence::kHigh;
  EvidenceStatus evidence_status = EvidenceStatus::kEstablished;
  CausalRole causal_role = CausalRole::kUnknown;
  std::int64_t rank = 0;
  std::int64_t step = 0;
  Phase phase = Phase::kBackward;
  std::string model;
  std::string module_path;
  std::string subject;
  std::string op;
  std::string what;
  std::string why;
  std::vector<Fix> fixes;
  std::vector<Fact> facts;
  std::vector<Site> sites;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  std::int64_t occurrences = 1;
  std::vector<std::int64_t> ranks;
  std::string caused_by;  ///< fingerprint of the finding that explains this one, or empty
  std::string fingerprint;
  bool suppressed = false;
  std::string suppression_reason;  ///< of the first line that matches it, where it is suppressed
};
using Findings = std::vector<Finding>;

/// Null where the finding has no such fact.
inline const FactValue* find_fact(const Finding& finding, std::string_view key) {
  const auto fact = std::ranges::find(finding.facts, key, &Fact::key);
  return fact == finding.facts.end() ? nullptr : &fact->value;
}
/// Its value from now on.
inline void set_fact(Finding& finding, std::string_view key, FactValue value) {
  const auto fact = std::ranges::find(finding.facts, key, &Fact::key);
  if (fact != finding.facts.end()) {
    fact->value = std::move(value);
  } else {
    finding.facts.push_back({std::string(key), std::move(value)});
  }
}

}  // namespace ddpscope
