#include "records/schema_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/run_record.h"
#include "records/json_members.h"
#include "records/line_shape.h"
#include "records/schema_formats.h"
#include "records/schema_table.h"

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;
using std::string_view;

constexpr std::size_t kMaxRows = 512;
constexpr std::size_t kMaxShownKey = 64;

enum class Absent : std::uint8_t { kFault, kAllowed };

/// Counts the lines that the parser has read.
struct TextProgress {
  std::int64_t line = 1;
  bool at_line_end = false;
};
class CountedText {
 public:
  // NOLINTBEGIN(readability-identifier-naming): the names are those of the standard
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  // NOLINTEND(readability-identifier-naming)

  CountedText(const char* at, TextProgress* progress) : at_(at), progress_(progress) {}
  reference operator*() const { return *at_; }
  CountedText& operator++() {
    progress_->line += progress_->at_line_end;
    progress_->at_line_end = *at_++ == '\n';
    return *this;
  }
  CountedText operator++(int) {
    CountedText before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountedText& other) const { return at_ == other.at_; }
  bool operator!=(const CountedText& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  TextProgress* progress_;
};

/// An object or a list that is open.
struct Level {
  string_view owner;    ///< of an object whose members are known
  string_view element;  ///< type of each element or value; empty: anything
  bool is_list = false;
  std::string key;
  std::int64_t index = -1;
  std::bitset<kMaxRows> seen;
};

class SchemaWalk final : public nlohmann::json_sax<Json> {
 public:
  SchemaWalk(string_view owner, const TextProgress& progress, const SchemaFaults& faults,
             Absent absent)
      : root_(owner), progress_(progress), faults_(faults), absent_(absent) {}

  bool null() override { return scalar("null"); }
  bool boolean(bool /*value*/) override { return scalar("truth"); }
  bool number_integer(std::int64_t value) override {
    number_ = value;
    return scalar("integer");
  }
  bool number_unsigned(std::uint64_t value) override {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (value > kMost) return scalar("large integer");
    return number_integer(static_cast<std::int64_t>(value));
  }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return scalar("number");
  }
  bool string(std::string& value) override {
    text_ = value;
    return scalar("text");
  }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*members*/) override { return open(false); }
  bool end_object() override {
    if (absent_ == Absent::kFault) tell_missing();
    levels_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override { return open(true); }
  bool end_array() override {
    levels_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    levels_.back().key = name.substr(0, kMaxShownKey);
    return true;
  }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

  bool is_newer() const { return is_newer_; }

 private:
  string_view expected();
  bool scalar(string_view kind);
  bool fits(string_view kind, string_view type) const;
  bool open(bool is_list);
  void tell_missing();
  void refuse(string_view type);
  std::string path() const;

  string_view root_;
  bool is_newer_ = false;
  const TextProgress& progress_;
  const SchemaFaults& faults_;
  Absent absent_;
  std::vector<Level> levels_;
  std::int64_t number_ = 0;
  std::string text_;
};

/// The type of the value that comes now; empty where the schema says nothing of it.
string_view SchemaWalk::expected() {
  if (levels_.empty()) return root_;
  Level& level = levels_.back();
  if (level.is_list) ++level.index;
  if (level.owner.empty()) return level.element;
  const SchemaMember* member = find_member(level.owner, level.key);
  if (member == nullptr) return {};
  level.seen.set(static_cast<std::size_t>(member - schema_members().data()));
  return member->type;
}

bool SchemaWalk::fits(string_view kind, string_view type) const {
  if ((take_nullable(type) || absent_ == Absent::kAllowed) && kind == "null") return true;
  if (const auto words = words_of_type(type); !words.empty()) {
    return kind == "text" && std::ranges::find(words, string_view(text_)) != words.end();
  }
  if (type == "fact") return kind != "large integer";
  if (const SchemaFormat* format = find_format(type)) {
    if (kind == "integer") return format->fits_number != nullptr && format->fits_number(number_);
    return kind == "text" && format->fits_text != nullptr && format->fits_text(text_);
  }
  if (type == "number") {
    return kind == "integer" || kind == "number" || kind == "large integer" ||
           (kind == "text" && members::number_in_words(text_));
  }
  return kind == type;
}

bool SchemaWalk::scalar(string_view kind) {
  const string_view type = expected();
  if (levels_.empty()) return false;
  if (levels_.size() == 1 && levels_.back().key == "schema" && kind == "integer") {
    is_newer_ = number_ > kReportSchema;
    if (is_newer_) return false;
  }
  const bool is_offset = kind == "large integer" && levels_.back().key == "offset";
  if (!type.empty() && !is_offset && !fits(kind, type)) refuse(type);
  return true;
}

bool SchemaWalk::open(bool is_list) {
  string_view type = expected();
  if (levels_.size() >= kMaxDepth || (levels_.empty() && is_list)) return false;
  take_nullable(type);
  Level level{.is_list = is_list};
  const bool is_container = type.starts_with(is_list ? '[' : '{');
  if (is_container) {
    level.element = type.substr(1, type.size() - 2);
  } else if (!is_list && is_owner(type)) {
    level.owner = type;
  } else if (is_list && type == "fact") {
    level.element = type;
  } else if (!type.empty()) {
    refuse(type);
  }
  levels_.push_back(std::move(level));
  return true;
}

void SchemaWalk::tell_missing() {
  const Level& level = levels_.back();
  const auto rows = schema_members();
  for (string_view owner = level.owner; !owner.empty();) {
    string_view inherited;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].owner != owner) continue;
      if (rows[i].name.empty()) inherited = rows[i].type;
      const bool is_told = rows[i].name.empty() || !rows[i].is_required || level.seen[i];
      const bool is_replaced = find_member(level.owner, rows[i].name) != &rows[i];
      if (is_told || is_replaced) continue;
      levels_.back().key = rows[i].name;
      faults_(progress_.line, path() + " is missing");
    }
    owner = inherited;
  }
}

void SchemaWalk::refuse(string_view type) {
  const bool may_be_null = take_nullable(type);
  std::string wanted(type);
  const auto words = words_of_type(type);
  if (!words.empty()) wanted = fmt::format("of {}", fmt::join(words, ", "));
  if (type == "integer") wanted = "64-bit integer";
  if (type == "truth") wanted = "boolean";
  if (const SchemaFormat* format = find_format(type)) wanted = format->wanted;
  if (type.starts_with('[')) wanted = "list";
  if (type.starts_with('{') || is_owner(type)) wanted = "object";
  faults_(progress_.line, fmt::format("{} is {} {}{}", path(), words.empty() ? "no" : "none",
                                      wanted, may_be_null ? " or null" : ""));
}

std::string SchemaWalk::path() const {
  std::string text(root_);
  for (const Level& level : levels_) {
    text += level.is_list ? fmt::format("[{}]", level.index) : "." + level.key;
  }
  return text;
}

SchemaEnd walk_text(string_view text, string_view owner, TextProgress progress,
                    const SchemaFaults& faults, Absent absent) {
  SchemaWalk walk(owner, progress, faults, absent);
  const CountedText begin(text.data(), &progress);
  const CountedText end(text.data() + text.size(), &progress);
  if (Json::sax_parse(begin, end, &walk)) return SchemaEnd::kWhole;
  if (!walk.is_newer()) {
    faults(progress.line, "this is no JSON object, or one that nests too deep");
    return SchemaEnd::kBroken;
  }
  faults(progress.line,
         fmt::format("{}.schema is newer than {}, the newest that this version reads", owner,
                     kReportSchema));
  return SchemaEnd::kNewer;
}
}  // namespace

SchemaEnd walk_schema(string_view text, string_view owner, std::int64_t first_line,
                      const SchemaFaults& faults) {
  return walk_text(text, owner, {.line = first_line}, faults, Absent::kFault);
}

std::optional<SchemaFault> wrong_value(string_view text, string_view owner,
                                       std::int64_t first_line) {
  std::optional<SchemaFault> first;
  const auto keep = [&first](std::int64_t line, const std::string& fault) {
    if (!first) first = {line, fault};
  };
  walk_text(text, owner, {.line = first_line}, keep, Absent::kAllowed);
  return first;
}

}  // namespace ddpscope
