#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "records/record_json.h"
#include "records/words.h"

namespace ddpscope {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

/// The member, or null where it is absent or not measured.
const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) throw FormatError("a record is no object");
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void refuse(const char* key, std::string_view wanted) {
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

std::int64_t integer(const Json& object, const char* key, std::int64_t absent = 0) {
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
  const Json* value = member(object, key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return number(object, key);
}

bool truth(const Json& object, const char* key, bool absent) {
  const Json* value = member(object, key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) refuse(key, "boolean");
  return value->get<bool>();
}

template <typename Enum>
Enum enumerator(const Json& object, const char* key, Enum absent) {
  if (member(object, key) == nullptr) return absent;
  const auto value = from_word<Enum>(text(object, key));
  if (!value) refuse(key, "word of this schema");
  return *value;
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

FactScalar scalar(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (fits(value)) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) refuse("facts", "object of numbers, strings, booleans and lists of them");
  const auto& word = value.get_ref<const std::string&>();
  if (const auto special = number_in_words(word)) return *special;
  return word;
}

std::vector<Fact> facts(const Json& object) {
  std::vector<Fact> result;
  for (const auto& [key, value] : map(object, "facts").items()) {
    if (value.is_null()) continue;
    if (value.is_array()) {
      std::vector<FactScalar> scalars;
      for (const auto& element : value) scalars.push_back(scalar(element));
      result.push_back({key, std::move(scalars)});
    } else {
      result.push_back(
          {key, std::visit([](auto&& plain) { return FactValue(plain); }, scalar(value))});
    }
  }
  return result;
}

Frame frame(const Json& json) {
  Frame result = {.function = text(json, "function"),
                  .file = text(json, "file"),
                  .line = integer(json, "line"),
                  .module = text(json, "module"),
                  .source = text(json, "source"),
                  .build_id = text(json, "build_id"),
                  .library = truth(json, "library", false)};
  if (const Json* offset = member(json, "offset")) {
    if (!offset->is_number_unsigned()) refuse("offset", "unsigned integer");
    result.offset = offset->get<std::uint64_t>();
  }
  return result;
}

std::vector<Site> sites(const Json& object) {
  std::vector<Site> result;
  for (const auto& json : list(object, "sites")) {
    Site site = {text(json, "role"), {}, enumerator(json, "state", SiteState())};
    for (const auto& each : list(json, "frames")) site.frames.push_back(frame(each));
    result.push_back(std::move(site));
  }
  return result;
}

std::int64_t rank(const Json& json, const char* key) {
  const std::int64_t result = integer(json, key);
  if (result < 0 || result > kMaxRank) refuse(key, "rank from 0 to 2^20");
  return result;
}

std::vector<std::int64_t> ranks(const Json& object) {
  std::vector<std::int64_t> result;
  for (const auto& value : list(object, "ranks")) {
    if (!fits(value)) refuse("ranks", "list of integers");
    const auto one = value.get<std::int64_t>();
    if (one < 0 || one > kMaxRank) refuse("ranks", "list of ranks from 0 to 2^20");
    result.push_back(one);
  }
  return result;
}

}  // namespace

RunRecord run_from_json(const Json& json) {
  RunRecord run = {.schema = integer(json, "schema"),
                   .run_id = text(json, "run_id"),
                   .tool_version = text(json, "tool_version"),
                   .torch_version = text(json, "torch_version"),
                   .cuda = text(json, "cuda"),
                   .nccl = text(json, "nccl"),
                   .rank = rank(json, "rank"),
                   .local_rank = rank(json, "local_rank"),
                   .world_size = integer(json, "world_size", 1),
                   .host = text(json, "host"),
                   .device = text(json, "device"),
                   .pid = integer(json, "pid"),
                   .started = text(json, "started"),
                   .command = texts(json, "command"),
                   .settings = {},
                   .checks = texts(json, "checks"),
                   .blocked = text_map(json, "blocked"),
                   .sources = text_map(json, "sources")};
  if (run.world_size < 1 || run.world_size > kMaxRank + 1) refuse("world_size", "count of ranks");
  for (const auto& [key, value] : map(json, "settings").items()) {
    run.settings[key] = {.value = text(value, "value"), .source = text(value, "source")};
  }
  return run;
}

ModelRecord model_from_json(const Json& json) {
  return {.name = text(json, "name"),
          .class_name = text(json, "class"),
          .parameters = integer(json, "parameters"),
          .elements = integer(json, "elements"),
          .trainable = integer(json, "trainable"),
          .buffers = integer(json, "buffers"),
          .modules = integer(json, "modules"),
          .digest = text(json, "digest")};
}

Finding finding_from_json(const Json& json) {
  Finding finding = {
      .id = text(json, "id"),
      .severity = enumerator(json, "severity", Severity::kWarning),
      .confidence = enumerator(json, "confidence", Confidence::kHigh),
      .evidence_status = enumerator(json, "evidence_status", EvidenceStatus::kEstablished),
      .causal_role = enumerator(json, "causal_role", CausalRole::kUnknown),
      .rank = rank(json, "rank"),
      .step = integer(json, "step"),
      .phase = enumerator(json, "phase", Phase::kBackward),
      .model = text(json, "model"),
      .module_path = text(json, "module_path"),
      .subject = text(json, "subject"),
      .op = text(json, "op"),
      .what = text(json, "what"),
      .why = text(json, "why"),
      .fixes = {},
      .facts = facts(json),
      .sites = sites(json),
      .first_step = integer(json, "first_step"),
      .last_step = integer(json, "last_step"),
      .occurrences = integer(json, "occurrences", 1),
      .ranks = ranks(json),
      .caused_by = text(json, "caused_by"),
      .fingerprint = text(json, "fingerprint"),
      .suppressed = truth(json, "suppressed", false)};
  if (finding.id.empty()) throw FormatError("a finding has no \"id\"");
  for (const auto& fix : list(json, "fixes")) {
    finding.fixes.push_back(
        {.text = text(fix, "text"),
         .applicability = enumerator(fix, "applicability", Applicability::kLikely)});
  }
  return finding;
}

ProgressRecord progress_from_json(const Json& json) {
  return {.step = integer(json, "step"),
          .phase = enumerator(json, "phase", Phase::kForward),
          .reason = text(json, "reason"),
          .model = text(json, "model"),
          .module_path = text(json, "module_path"),
          .op = text(json, "op"),
          .what = text(json, "what"),
          .time_unix_ns = integer(json, "time_unix_ns"),
          .exception = text(json, "exception"),
          .signal = text(json, "signal"),
          .code = integer(json, "code")};
}

std::int64_t step_from_json(const Json& json) { return integer(json, "step"); }

SummaryRecord summary_from_json(const Json& json) {
  SummaryRecord summary = {.counts_by_id = {},
                           .errors = integer(json, "errors"),
                           .warnings = integer(json, "warnings"),
                           .notes = integer(json, "notes"),
                           .steps = integer(json, "steps"),
                           .passed = texts(json, "passed"),
                           .failed = texts(json, "failed"),
                           .blocked = text_map(json, "blocked"),
                           .events_dropped = integer(json, "events_dropped"),
                           .overhead_percent = measured(json, "overhead_percent"),
                           .overhead_percent_first = measured(json, "overhead_percent_first"),
                           .overhead = {},
                           .clean_exit = truth(json, "clean_exit", true)};
  const Json& counts = map(json, "counts_by_id");
  for (const auto& [id, value] : counts.items()) {
    summary.counts_by_id[id] = integer(counts, id.c_str());
  }
  for (const auto& [id, cost] : map(json, "overhead").items()) {
    summary.overhead[id] = {.us_per_step = number(cost, "us_per_step"),
                            .percent = number(cost, "percent")};
  }
  return summary;
}

}  // namespace ddpscope
