// Inner headers first: behind the public one their type names would be ambiguous.
// clang-format off
#include "plugin/session.h"
#include "records/words.h"
#include "plugin/public_findings.h"
// clang-format on

namespace ddpscope {
namespace {
template <class Inner>
api0::FactValue public_fact(const Inner& value) {
  return std::visit([](const auto& held) -> api0::FactValue { return held; }, value);
}

template <class Inner>
api0::Site public_site(const Inner& site) {
  api0::Site result{.role = site.role, .state = std::string(word(site.state))};
  for (const auto& frame : site.frames) {
    result.frames.push_back({.function = frame.function,
                             .file = frame.file,
                             .line = frame.line,
                             .module = frame.module,
                             .offset = frame.offset,
                             .source = frame.source,
                             .build_id = frame.build_id,
                             .library = frame.library});
  }
  return result;
}

template <class Inner>
api0::Finding public_finding(const Inner& inner) {
  api0::Finding result{.id = inner.id,
                       .severity = std::string(word(inner.severity)),
                       .confidence = std::string(word(inner.confidence)),
                       .evidence_status = std::string(word(inner.evidence_status)),
                       .causal_role = std::string(word(inner.causal_role)),
                       .rank = inner.rank,
                       .step = inner.step,
                       .phase = std::string(word(inner.phase)),
                       .model = inner.model,
                       .module_path = inner.module_path,
                       .subject = inner.subject,
                       .op = inner.op,
                       .what = inner.what,
                       .why = inner.why,
                       .first_step = inner.first_step,
                       .last_step = inner.last_step,
                       .occurrences = inner.occurrences,
                       .ranks = {inner.rank},
                       .doc = "docs/checks/" + inner.id + ".md",
                       .fingerprint = inner.fingerprint,
                       .suppressed = inner.suppressed};
  if (!inner.caused_by.empty()) result.caused_by = inner.caused_by;
  for (const auto& fix : inner.fixes) {
    result.fixes.push_back({fix.text, std::string(word(fix.applicability))});
  }
  for (const auto& fact : inner.facts) result.facts.emplace(fact.key, public_fact(fact.value));
  for (const auto& site : inner.sites) result.sites.push_back(public_site(site));
  return result;
}
}  // namespace

std::vector<api0::Finding> public_findings() {
  std::vector<api0::Finding> result;
  Session* session = Session::running();
  if (session == nullptr) return result;
  session->drain();
  for (const auto& finding : session->worker().findings()) {
    result.push_back(public_finding(finding));
  }
  return result;
}

}  // namespace ddpscope
