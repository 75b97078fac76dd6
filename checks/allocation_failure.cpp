#include "checks/allocation_failure.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace ddpscope {
namespace {
struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 5> kUnits = {{{"bytes", 1},
                                         {"KiB", 1024.0},
                                         {"MiB", 1024.0 * 1024},
                                         {"GiB", 1024.0 * 1024 * 1024},
                                         {"TiB", 1024.0 * 1024 * 1024 * 1024}}};

/// The size that the text begins with: `20.00 GiB`, `4096 bytes`.
std::optional<std::int64_t> size_at(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest == end || *rest != ' ') return std::nullopt;
  const std::string_view name(rest + 1, end);
  for (const Unit& unit : kUnits) {
    if (name.starts_with(unit.name)) return std::llround(number * unit.bytes);
  }
  return std::nullopt;
}

std::optional<std::int64_t> size_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  return size_at(text.substr(at + words.size()));
}

/// The size whose sentence goes on with `words`.
std::optional<std::int64_t> size_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t unit = text.rfind(' ', at - 1);
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const std::size_t number = text.rfind(' ', unit - 1);
  return size_at(text.substr(number == std::string_view::npos ? 0 : number + 1));
}

/// Sums over `Process 1234 has 3.00 GiB memory in use`.
std::optional<std::int64_t> foreign_bytes(std::string_view text) {
  std::optional<std::int64_t> all;
  for (std::size_t at = text.find("Process "); at != std::string_view::npos;
       at = text.find("Process ", at + 1)) {
    const std::string_view rest = text.substr(at);
    if (const auto size = size_after(rest.substr(0, rest.find("memory in use")), " has ")) {
      all = all.value_or(0) + *size;
    }
  }
  return all;
}
}  // namespace

std::optional<AllocationFailure> allocation_failure(const std::string& message) {
  if (const auto size = size_after(message, "can't allocate memory: you tried to allocate ")) {
    return AllocationFailure{.requested_bytes = *size};
  }
  const std::string_view text = message;
  if (text.find("out of memory") == std::string_view::npos) return std::nullopt;
  return AllocationFailure{
      .requested_bytes = size_after(text, "ried to allocate ").value_or(0),
      .free_bytes = size_after(text, "of which "),
      .capacity_bytes = size_after(text, "total capacity of "),
      .fragmented_bytes = size_before(text, " is reserved by PyTorch but unallocated"),
      .foreign_bytes = foreign_bytes(text)};
}

}  // namespace ddpscope
