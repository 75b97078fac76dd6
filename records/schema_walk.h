#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddpscope {

/// Takes a line (1-based) and what is wrong there: `finding.sites[0].state is missing`.
using SchemaFaults = std::function<void(std::int64_t line, const std::string& text)>;

enum class SchemaEnd : std::uint8_t {
  kWhole,
  kBroken,  ///< no JSON object, or one that nests deeper than 64 levels
  kNewer,   ///< of a newer schema: what follows is not looked at
};

/// Reads one JSON document that is an `owner` of records/schema.def, whose first line has the
/// number `first_line`, without building a tree.
SchemaEnd walk_schema(std::string_view text, std::string_view owner, std::int64_t first_line,
                      const SchemaFaults& faults);

struct SchemaFault {
  std::int64_t line = 0;
  std::string text;
};
/// The first value of such a document that the schema does not have. What is absent or null is
/// none: readers take it as not measured.
std::optional<SchemaFault> wrong_value(std::string_view text, std::string_view owner,
                                       std::int64_t first_line);

}  // namespace ddpscope
