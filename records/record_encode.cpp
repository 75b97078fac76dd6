#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "records/record_json.h"
#include "records/utf8.h"
#include "records/words.h"

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;

Json texts(const std::vector<std::string>& values) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(valid_utf8(value));
  return list;
}

Json texts(const std::map<std::string, std::string>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[valid_utf8(key)] = valid_utf8(value);
  return object;
}

struct FactToJson {
  Json operator()(bool value) const { return value; }
  Json operator()(std::int64_t value) const { return value; }
  Json operator()(double value) const { return json_number(value); }
  Json operator()(const std::string& value) const { return valid_utf8(value); }
  Json operator()(const std::vector<FactScalar>& values) const {
    Json list = Json::array();
    for (const auto& value : values) list.push_back(std::visit(*this, value));
    return list;
  }
};

Json facts_to_json(const std::vector<Fact>& facts) {
  Json object = Json::object();
  for (const auto& fact : facts)
    object[valid_utf8(fact.key)] = std::visit(FactToJson(), fact.value);
  return object;
}

Json fixes_to_json(const std::vector<Fix>& fixes) {
  Json list = Json::array();
  for (const auto& fix : fixes) {
    list.push_back({{"text", valid_utf8(fix.text)}, {"applicability", word(fix.applicability)}});
  }
  return list;
}

Json sites_to_json(const std::vector<Site>& sites) {
  Json list = Json::array();
  for (const auto& site : sites) list.push_back(to_json(site));
  return list;
}

Json measured(const std::optional<double>& value) { return value ? json_number(*value) : Json(); }

Json json_of(const ModuleRecord& module) {
  return {{"path", valid_utf8(module.path)},
          {"class", valid_utf8(module.class_name)},
          {"parameters", module.parameters},
          {"trainable", module.trainable},
          {"elements", module.elements}};
}
}  // namespace

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json to_json(const RunRecord& run) {
  Json settings = Json::object();
  for (const auto& [key, setting] : run.settings) {
    settings[valid_utf8(key)] = {{"value", valid_utf8(setting.value)},
                                 {"source", valid_utf8(setting.source)}};
  }
  Json json = {{"record", "run"},
               {"schema", run.schema},
               {"run_id", valid_utf8(run.run_id)},
               {"tool", "ddpscope"},
               {"tool_version", valid_utf8(run.tool_version)},
               {"torch_version", valid_utf8(run.torch_version)},
               {"cuda", valid_utf8(run.cuda)},
               {"nccl", valid_utf8(run.nccl)},
               {"rank", run.rank},
               {"local_rank", run.local_rank},
               {"world_size", run.world_size},
               {"host", valid_utf8(run.host)},
               {"device", valid_utf8(run.device)},
               {"pid", run.pid},
               {"started", valid_utf8(run.started)},
               {"command", texts(run.command)},
               {"settings", settings},
               {"checks", texts(run.checks)},
               {"blocked", texts(run.blocked)},
               {"sources", texts(run.sources)}};
  if (run.started.empty()) json.erase("started");
  if (run.device_index.has_value()) {
    json["device_index"] = *run.device_index;
    json["visible_devices"] = run.visible_devices;
    json["device_mask"] = valid_utf8(run.device_mask);
  }
  return json;
}

Json to_json(const ModelRecord& model) {
  Json json = {{"record", "model"},
               {"name", valid_utf8(model.name)},
               {"class", valid_utf8(model.class_name)},
               {"parameters", model.parameters},
               {"elements", model.elements},
               {"trainable", model.trainable},
               {"buffers", model.buffers},
               {"modules", model.modules},
               {"digest", valid_utf8(model.digest)}};
  for (const ModuleRecord& module : model.tree) json["tree"].push_back(json_of(module));
  return json;
}

Json to_json(const StepRecord& step) {
  Json json = {{"record", "step"},
               {"step", step.step},
               {"wall_ms", json_number(step.wall_ms)},
               {"overhead_us", json_number(step.overhead_us)},
               {"collectives", step.collectives},
               {"seq", step.seq}};
  if (step.host_reads > 0) json["host_reads"] = step.host_reads;
  if (step.time_unix_ns != 0) json["time_unix_ns"] = step.time_unix_ns;
  if (step.loss) json["loss"] = json_number(*step.loss);
  if (step.gradient_norm) json["grad_norm"] = json_number(*step.gradient_norm);
  return json;
}

// What a hash of 0 does not say is absent.
Json to_json(const StepDigest& digest) {
  Json json = {{"record", "digest"}, {"step", digest.step}, {"time_unix_ns", digest.unix_ns}};
  for (const auto& [key, hash] : {std::pair{"structure", digest.structure},
                                  {"gradients", digest.gradients},
                                  {"optimizers", digest.optimizers},
                                  {"parameters", digest.parameters},
                                  {"buffers", digest.buffers}}) {
    if (hash != 0) json[key] = fmt::format("{:016x}", hash);
  }
  if (digest.gradients != 0) json["received"] = digest.received;
  if (digest.optimizers != 0) {
    json["learning_rate"] = json_number(digest.learning_rate);
    json["weight_decay"] = json_number(digest.weight_decay);
    json["momentum"] = json_number(digest.momentum);
    json["groups"] = digest.groups;
    if (digest.members > 0) json["members"] = digest.members;
  }
  if (digest.loss_scale > 0) json["loss_scale"] = json_number(digest.loss_scale);
  json["forwards"] = digest.forwards;
  json["backwards"] = digest.backwards;
  json["optimizer_steps"] = digest.optimizer_steps;
  json["skipped_steps"] = digest.skipped_steps;
  json["collectives"] = digest.call_count;
  json["averages"] = digest.averages;
  return json;
}

Json to_json(const Finding& finding) {
  Json json = {{"record", "finding"},
               {"id", valid_utf8(finding.id)},
               {"severity", word(finding.severity)},
               {"confidence", word(finding.confidence)},
               {"evidence_status", word(finding.evidence_status)},
               {"causal_role", word(finding.causal_role)},
               {"rank", finding.rank},
               {"step", finding.step},
               {"phase", word(finding.phase)},
               {"model", valid_utf8(finding.model)},
               {"module_path", valid_utf8(finding.module_path)},
               {"subject", valid_utf8(finding.subject)},
               {"op", valid_utf8(finding.op)},
               {"what", valid_utf8(finding.what)},
               {"why", valid_utf8(finding.why)},
               {"fixes", fixes_to_json(finding.fixes)},
               {"facts", facts_to_json(finding.facts)},
               {"sites", sites_to_json(finding.sites)},
               {"first_step", finding.first_step},
               {"last_step", finding.last_step},
               {"occurrences", finding.occurrences}};
  if (!finding.ranks.empty()) json["ranks"] = finding.ranks;
  json["caused_by"] = finding.caused_by.empty() ? Json() : Json(valid_utf8(finding.caused_by));
  json["doc"] = valid_utf8("docs/checks/" + finding.id + ".md");
  json["fingerprint"] = valid_utf8(finding.fingerprint);
  json["suppressed"] = finding.suppressed;
  if (!finding.suppression_reason.empty())
    json["suppression_reason"] = valid_utf8(finding.suppression_reason);
  return json;
}

Json to_json(const ProgressRecord& progress) {
  Json json = {{"record", "progress"},
               {"step", progress.step},
               {"phase", word(progress.phase)},
               {"reason", valid_utf8(progress.reason)},
               {"model", valid_utf8(progress.model)},
               {"module_path", valid_utf8(progress.module_path)},
               {"op", valid_utf8(progress.op)},
               {"what", valid_utf8(progress.what)}};
  if (progress.time_unix_ns != 0) json["time_unix_ns"] = progress.time_unix_ns;
  if (!progress.exception.empty()) json["exception"] = valid_utf8(progress.exception);
  if (!progress.signal.empty()) json["signal"] = valid_utf8(progress.signal);
  if (progress.code != 0) json["code"] = progress.code;
  return json;
}

Json to_json(const SuppressionRecord& suppression) {
  return {{"record", "suppression"},
          {"path", valid_utf8(suppression.path)},
          {"line", suppression.line},
          {"text", valid_utf8(suppression.text)},
          {"until", valid_utf8(suppression.until)},
          {"state", word(suppression.state)}};
}

namespace {
Json cost_share(const std::optional<CostShare>& share) {
  if (!share) return nullptr;
  return {{"us_per_step", json_number(share->us_per_step)},
          {"percent", json_number(share->percent)}};
}
}  // namespace

Json to_json(const CheckCost& cost) {
  return {{"us_per_step", json_number(cost.us_per_step)},
          {"percent", json_number(cost.percent)},
          {"first", cost_share(cost.first)},
          {"after", cost_share(cost.after)},
          {"coverage", json_number(cost.coverage)},
          {"latency_steps", cost.latency_steps}};
}

Json to_json(const SummaryRecord& summary) {
  Json counts = Json::object();
  for (const auto& [id, count] : summary.counts_by_id) counts[valid_utf8(id)] = count;
  Json overhead = Json::object();
  for (const auto& [id, cost] : summary.overhead) {
    overhead[valid_utf8(id)] = to_json(cost);
  }
  Json watched = nullptr;
  if (summary.watched) {
    watched = {{"share", json_number(summary.watched->share)},
               {"pairs", summary.watched->pairs},
               {"resting_ms", json_number(summary.watched->resting_ms)},
               {"extra_percent", json_number(summary.watched->extra_percent)},
               {"lower_percent", json_number(summary.watched->lower_percent)},
               {"upper_percent", json_number(summary.watched->upper_percent)}};
  }
  return {{"record", "summary"},
          {"counts_by_id", counts},
          {"errors", summary.errors},
          {"warnings", summary.warnings},
          {"notes", summary.notes},
          {"steps", summary.steps},
          {"passed", texts(summary.passed)},
          {"failed", texts(summary.failed)},
          {"blocked", texts(summary.blocked)},
          {"events_dropped", summary.events_dropped},
          {"overhead_percent", measured(summary.overhead_percent)},
          {"overhead_percent_first", measured(summary.overhead_percent_first)},
          {"overhead", overhead},
          {"watched", watched},
          {"clean_exit", summary.clean_exit}};
}

Json to_json(const Site& site) {
  Json frames = Json::array();
  for (const auto& [function, file, line, module, offset, source, build_id, library] :
       site.frames) {
    frames.push_back({{"function", valid_utf8(function)},
                      {"file", valid_utf8(file)},
                      {"line", line},
                      {"module", valid_utf8(module)},
                      {"offset", offset},
                      {"source", valid_utf8(source)},
                      {"build_id", valid_utf8(build_id)},
                      {"library", library}});
  }
  return {{"role", valid_utf8(site.role)}, {"frames", frames}, {"state", word(site.state)}};
}

std::string place_members(const ProgressRecord& progress) {
  const Json json = {{"model", valid_utf8(progress.model)},
                     {"module_path", valid_utf8(progress.module_path)},
                     {"op", valid_utf8(progress.op)}};
  const std::string object = json.dump();
  return "," + object.substr(1, object.size() - 2);
}

}  // namespace ddpscope
