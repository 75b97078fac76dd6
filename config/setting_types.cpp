#include "config/setting_types.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "config/glob.h"

namespace ddpscope {
namespace {
constexpr double kMinPercent = 0;
constexpr double kMaxPercent = 1000;

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<std::string> if_true(bool accepted, std::string_view text) {
  if (!accepted) return std::nullopt;
  return std::string(text);
}
}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_number<std::int64_t>(text);
}

std::optional<bool> Switch::parse(std::string_view text) {
  if (text == "0") return false;
  if (text == "1") return true;
  return std::nullopt;
}

std::optional<double> Percent::parse(std::string_view text) {
  const auto value = parse_number<double>(text);
  const bool in_range = value && *value >= kMinPercent && *value <= kMaxPercent;
  return in_range ? value : std::nullopt;
}

std::string Percent::text(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::optional<std::string> RequiredText::parse(std::string_view text) {
  return if_true(!text.empty(), text);
}

std::optional<std::string> OptionalText::parse(std::string_view text) { return std::string(text); }

std::optional<std::string> CheckGlobs::parse(std::string_view text) {
  const auto items = split_list(text);
  return if_true(!items.empty() && std::ranges::find(items, "-") == items.end(), text);
}

std::optional<std::string> Globs::parse(std::string_view text) { return std::string(text); }

std::optional<std::string> Declarations::parse(std::string_view text) {
  const auto items = split_declarations(text);
  return if_true(std::ranges::all_of(items, known_declaration, &DeclaredGlob::kind), text);
}

}  // namespace ddpscope
