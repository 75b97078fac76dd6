#include <algorithm>

#include "records/json_members.h"
#include "records/schema_table.h"

namespace ddpscope {
namespace {

using members::enumerator;
using members::fits;
using members::integer;
using members::Json;
using members::list;
using members::map;
using members::measured;
using members::member;
using members::number;
using members::number_in_words;
using members::rank;
using members::refuse;
using members::text;
using members::text_map;
using members::texts;
using members::truth;

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
  for (const auto& json : list(object, "sites")) result.push_back(site_from_json(json));
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
  const auto is_known = [words = words_of_type("source_state")](const auto& source) {
    return std::ranges::find(words, source.second) != words.end();
  };
  if (!std::ranges::all_of(run.sources, is_known)) refuse("sources", "map to words of this schema");
  if (json.contains("device_index")) {
    run.device_index = integer(json, "device_index");
    run.visible_devices = integer(json, "visible_devices");
    run.device_mask = text(json, "device_mask");
  }
  if (run.world_size < 1 || run.world_size > kMaxRank + 1) refuse("world_size", "count of ranks");
  for (const auto& [key, value] : map(json, "settings").items()) {
    run.settings[key] = {.value = text(value, "value"), .source = text(value, "source")};
  }
  return run;
}

ModuleRecord module_from_json(const Json& json) {
  return {.path = text(json, "path"),
          .class_name = text(json, "class"),
          .parameters = integer(json, "parameters"),
          .trainable = integer(json, "trainable"),
          .elements = integer(json, "elements")};
}

ModelRecord model_from_json(const Json& json) {
  ModelRecord model = {.name = text(json, "name"),
                       .class_name = text(json, "class"),
                       .parameters = integer(json, "parameters"),
                       .elements = integer(json, "elements"),
                       .trainable = integer(json, "trainable"),
                       .buffers = integer(json, "buffers"),
                       .modules = integer(json, "modules"),
                       .digest = text(json, "digest")};
  for (const auto& module : list(json, "tree")) {
    if (model.tree.size() < kNamedModules) model.tree.push_back(module_from_json(module));
  }
  return model;
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
      .suppressed = truth(json, "suppressed", false),
      .suppression_reason = text(json, "suppression_reason")};
  if (finding.id.empty()) throw FormatError("a finding has no \"id\"");
  if (member(json, "severity") == nullptr) throw FormatError("a finding has no \"severity\"");
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

StepRecord step_from_json(const Json& json) {
  return {.step = integer(json, "step"),
          .wall_ms = number(json, "wall_ms"),
          .overhead_us = number(json, "overhead_us"),
          .collectives = integer(json, "collectives"),
          .seq = integer(json, "seq"),
          .host_reads = integer(json, "host_reads"),
          .time_unix_ns = integer(json, "time_unix_ns"),
          .loss = measured(json, "loss"),
          .gradient_norm = measured(json, "grad_norm")};
}

SuppressionRecord suppression_from_json(const Json& json) {
  return {.path = text(json, "path"),
          .line = integer(json, "line"),
          .text = text(json, "text"),
          .until = text(json, "until"),
          .state = enumerator(json, "state", SuppressionState::kUnused)};
}

Site site_from_json(const Json& json) {
  if (member(json, "role") == nullptr) throw FormatError("a site has no \"role\"");
  Site site = {text(json, "role"), {}, enumerator(json, "state", SiteState())};
  for (const auto& each : list(json, "frames")) site.frames.push_back(frame(each));
  return site;
}

namespace {
std::optional<CostShare> cost_share(const Json& share) {
  if (share.empty()) return std::nullopt;
  return CostShare{.us_per_step = number(share, "us_per_step"),
                   .percent = number(share, "percent")};
}

CheckCost check_cost(const Json& cost) {
  return {.us_per_step = number(cost, "us_per_step"),
          .percent = number(cost, "percent"),
          .first = cost_share(map(cost, "first")),
          .after = cost_share(map(cost, "after")),
          .coverage = measured(cost, "coverage").value_or(1),
          .latency_steps = integer(cost, "latency_steps", 1)};
}
}  // namespace

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
                           .watched = {},
                           .clean_exit = truth(json, "clean_exit", true)};
  const Json& counts = map(json, "counts_by_id");
  for (const auto& [id, value] : counts.items()) {
    summary.counts_by_id[id] = integer(counts, id.c_str());
  }
  for (const auto& [id, cost] : map(json, "overhead").items()) {
    summary.overhead[id] = check_cost(cost);
  }
  if (const Json& watched = map(json, "watched"); !watched.empty()) {
    summary.watched = WatchedCost{.share = number(watched, "share"),
                                  .pairs = integer(watched, "pairs"),
                                  .resting_ms = number(watched, "resting_ms"),
                                  .extra_percent = number(watched, "extra_percent"),
                                  .lower_percent = number(watched, "lower_percent"),
                                  .upper_percent = number(watched, "upper_percent")};
  }
  return summary;
}

}  // namespace ddpscope
