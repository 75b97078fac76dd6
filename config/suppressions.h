#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/finding.h"
#include "model/run_record.h"

namespace ddpscope {

/// One line of a suppressions file. A glob that is not set matches everything.
struct Suppression {
  std::string id;  ///< glob of ids, or a fingerprint
  std::optional<std::string> model;
  std::optional<std::string> module;  ///< "" is the root
  std::optional<std::string> subject;
  std::optional<std::string> op;
  std::string until;  ///< last day, YYYY-MM-DD; empty is for ever
  std::string reason;
  std::int64_t line = 0;
  std::string text;  ///< the line as written, escaped and cut, for messages
};

struct SuppressionFile {
  std::string path;
  std::vector<Suppression> entries;
  std::vector<std::string> problems;  ///< one line each, with path and line number
};

SuppressionFile parse_suppressions(std::string_view text, std::string_view path);
/// Reads a file; one that cannot be read is a problem at `place`, which may be empty.
SuppressionFile read_suppressions(const std::string& path, const std::string& place = {});

bool matches(const Suppression& suppression, const Finding& finding);
/// Whether `today` (YYYY-MM-DD) is after the last day.
bool expired(const Suppression& suppression, std::string_view today);
/// Today in UTC as YYYY-MM-DD.
std::string today_utc();

/// Decides findings and remembers which lines matched one.
class SuppressionList {
 public:
  SuppressionList() = default;
  SuppressionList(SuppressionFile file, std::string_view today);

  /// The first line in force that matches, or null. All that match count as used.
  const Suppression* find(const Finding& finding);
  /// Says in the finding whether a line matches it, and that line's reason.
  void decide(Finding& finding);
  /// The same of what a rank may have suppressed: that stays so. Lines that match are used.
  void decide_unless_suppressed(Finding& finding);
  /// What became of each line so far.
  std::vector<SuppressionRecord> records() const;

 private:
  SuppressionFile file_;
  std::vector<SuppressionState> states_;
};

}  // namespace ddpscope
