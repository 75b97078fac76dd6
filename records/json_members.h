#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "records/record_json.h"
#include "records/words.h"

/// The members of a record that nobody trusts. Absent and null are the same; each throws
/// FormatError where the member is of another type, or the record is no object.
namespace ddpscope::members {

using Json = nlohmann::ordered_json;

/// The member, or null where it is absent or not measured.
const Json* member(const Json& object, const char* key);
/// Throws `"<key>" is no <wanted>`.
[[noreturn]] void refuse(const char* key, std::string_view wanted);

/// Whether it is a whole number of 64 bits.
bool fits(const Json& value);
/// `nan`, `inf`, `-inf`.
std::optional<double> number_in_words(std::string_view word);

std::string text(const Json& object, const char* key);
std::int64_t integer(const Json& object, const char* key, std::int64_t absent = 0);
double number(const Json& object, const char* key);
std::optional<double> measured(const Json& object, const char* key);
bool truth(const Json& object, const char* key, bool absent);
const Json& list(const Json& object, const char* key);
const Json& map(const Json& object, const char* key);
std::vector<std::string> texts(const Json& object, const char* key);
std::map<std::string, std::string> text_map(const Json& object, const char* key);
/// A rank that is believed.
std::int64_t rank(const Json& object, const char* key);

template <typename Enum>
Enum enumerator(const Json& object, const char* key, Enum absent) {
  if (member(object, key) == nullptr) return absent;
  const auto value = from_word<Enum>(text(object, key));
  if (!value) refuse(key, "word of this schema");
  return *value;
}

}  // namespace ddpscope::members
