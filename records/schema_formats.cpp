#include "records/schema_formats.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "model/run_record.h"

namespace ddpscope {
namespace {
bool is_rank(std::int64_t value) { return value >= 0 && value <= kMaxRank; }
bool is_count(std::int64_t value) { return value >= 0; }
bool is_size(std::int64_t value) { return value >= 1; }

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_hex(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char letter) {
    return is_digit(letter) || (letter >= 'a' && letter <= 'f');
  });
}

/// Takes two digits from the front of a text, none greater than `most`.
std::optional<unsigned> take_pair(std::string_view& text, unsigned most) {
  if (text.size() < 2 || !is_digit(text[0]) || !is_digit(text[1])) return std::nullopt;
  const auto value = static_cast<unsigned>((text[0] - '0') * 10 + (text[1] - '0'));
  text.remove_prefix(2);
  return value <= most ? std::optional(value) : std::nullopt;
}

bool take_letter(std::string_view& text, std::string_view letters) {
  if (text.empty() || letters.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

bool take_date(std::string_view& text) {
  const auto century = take_pair(text, 99);
  const auto year = take_pair(text, 99);
  if (!take_letter(text, "-")) return false;
  const auto month = take_pair(text, 12);
  if (!take_letter(text, "-")) return false;
  const auto day = take_pair(text, 31);
  if (!century || !year || !month || !day) return false;
  using namespace std::chrono;
  return year_month_day(std::chrono::year(static_cast<int>(*century * 100 + *year)),
                        std::chrono::month(*month), std::chrono::day(*day))
      .ok();
}

/// date-time of RFC 3339, section 5.6, with an offset of zero.
bool is_time(std::string_view text) {
  constexpr unsigned kLeapSecond = 60;
  if (!take_date(text) || !take_letter(text, "Tt ") || !take_pair(text, 23) ||
      !take_letter(text, ":") || !take_pair(text, 59) || !take_letter(text, ":") ||
      !take_pair(text, kLeapSecond)) {
    return false;
  }
  if (take_letter(text, ".")) {
    const std::size_t digits = std::ranges::find_if_not(text, is_digit) - text.begin();
    if (digits == 0) return false;
    text.remove_prefix(digits);
  }
  return text == "Z" || text == "z" || text == "+00:00" || text == "-00:00";
}

constexpr auto kFormats =
    std::to_array<SchemaFormat>({{"rank", "rank from 0 to 2^20", is_rank, nullptr},
                                 {"count", "integer of 0 or more", is_count, nullptr},
                                 {"size", "integer of 1 or more", is_size, nullptr},
                                 {"hex", "text of digits from 0 to f", nullptr, is_hex},
                                 {"time", "time of RFC 3339 in UTC", nullptr, is_time}});
}  // namespace

const SchemaFormat* find_format(std::string_view type) {
  const auto* const found = std::ranges::find(kFormats, type, &SchemaFormat::type);
  return found == kFormats.end() ? nullptr : found;
}

}  // namespace ddpscope
