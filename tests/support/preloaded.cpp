// The public functions for a program that is not linked with ddpscope: attaching does nothing, and
// what was found is read from the rank file. So the same tests hold for preloaded programs.
#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "tests/support/torch_test.h"

namespace ddpscope {
namespace {
using nlohmann::json;

FactScalar scalar_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Finding finding_of(const json& record) {
  Finding finding{.id = record.at("id"),
                  .severity = record.at("severity"),
                  .step = record.at("step"),
                  .model = record.at("model"),
                  .module_path = record.at("module_path"),
                  .subject = record.at("subject"),
                  .op = record.at("op"),
                  .what = record.at("what"),
                  .why = record.at("why"),
                  .fingerprint = record.at("fingerprint")};
  for (const auto& [key, value] : record.at("facts").items()) {
    std::visit([&, name = key](const auto& held) { finding.facts[name] = held; }, scalar_of(value));
  }
  for (const json& fix : record.at("fixes")) finding.fixes.push_back({.text = fix.at("text")});
  if (!record.at("caused_by").is_null()) finding.caused_by = record.at("caused_by");
  return finding;
}

std::int64_t flush_records() {
  void* core = dlopen("libddpscope.so.0", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(core != nullptr);
  auto* flush = reinterpret_cast<std::int64_t (*)()>(dlsym(core, "ddpscope_flush"));
  REQUIRE(flush != nullptr);
  return flush();
}
}  // namespace

inline namespace api0 {
Attachment attach_diagnostics(torch::nn::Module&, const Options&) { return {}; }
Attachment attach_diagnostics(torch::jit::Module&, const Options&) { return {}; }
Attachment attach_diagnostics(const NamedTensors&, const Options&) { return {}; }
namespace detail {
Attachment attach_shared(std::shared_ptr<torch::nn::Module>, const Options&) { return {}; }
}  // namespace detail

Attachment& Attachment::name(std::string) { return *this; }
void Attachment::detach() {}

std::vector<Finding> findings() {
  flush_records();
  std::map<std::string, Finding> latest;
  for (const std::string& line : test::records("finding")) {
    Finding finding = finding_of(json::parse(line));
    latest[finding.fingerprint] = std::move(finding);
  }
  std::vector<Finding> all;
  for (auto& [fingerprint, finding] : latest) all.push_back(std::move(finding));
  return all;
}

Report flush() {
  Report report{.errors = flush_records()};
  for (const Finding& finding : findings()) report.warnings += finding.severity == "warning";
  return report;
}
}  // namespace api0
}  // namespace ddpscope
