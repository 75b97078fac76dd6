#include "records/json_members.h"

#include <fmt/format.h>

#include <limits>

namespace ddpscope::members {
namespace {
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
}  // namespace

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) throw FormatError("a record is no object");
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void refuse(const char* key, std::string_view wanted) {
  throw FormatError(fmt::format("\"{}\" is no {}", key, wanted));
}

bool fits(const Json& value) {
  return value.is_number_integer() &&
         !(value.is_number_unsigned() && value.get<std::uint64_t>() > kLargest);
}

std::string text(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr) return {};
  if (!value->is_string()) refuse(key, "string");
  return value->get<std::string>();
}

std::int64_t integer(const Json& object, const char* key, std::int64_t absent) {
  const Json* value = member(object, key);
  if (value == nullptr) return absent;
  if (!fits(*value)) refuse(key, "64-bit integer");
  return value->get<std::int64_t>();
}

std::optional<double> number_in_words(std::string_view word) {
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

double number(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr) return 0;
  if (value->is_number()) return value->get<double>();
  const auto special =
      value->is_string() ? number_in_words(value->get_ref<const std::string&>()) : std::nullopt;
  if (!special) refuse(key, "number");
  return *special;
}

std::optional<double> measured(const Json& object, const char* key) {
  if (member(object, key) == nullptr) return std::nullopt;
  return number(object, key);
}

bool truth(const Json& object, const char* key, bool absent) {
  const Json* value = member(object, key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) refuse(key, "boolean");
  return value->get<bool>();
}

const Json& list(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json* value = member(object, key);
  if (value == nullptr) return kEmpty;
  if (!value->is_array()) refuse(key, "list");
  return *value;
}

const Json& map(const Json& object, const char* key) {
  static const Json kEmpty = Json::object();
  const Json* value = member(object, key);
  if (value == nullptr) return kEmpty;
  if (!value->is_object()) refuse(key, "object");
  return *value;
}

std::vector<std::string> texts(const Json& object, const char* key) {
  std::vector<std::string> result;
  for (const auto& value : list(object, key)) {
    if (!value.is_string()) refuse(key, "list of strings");
    result.push_back(value.get<std::string>());
  }
  return result;
}

std::map<std::string, std::string> text_map(const Json& object, const char* key) {
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : map(object, key).items()) {
    result[name] = text(map(object, key), name.c_str());
  }
  return result;
}

std::int64_t rank(const Json& object, const char* key) {
  const std::int64_t result = integer(object, key);
  if (result < 0 || result > kMaxRank) refuse(key, "rank from 0 to 2^20");
  return result;
}

}  // namespace ddpscope::members
