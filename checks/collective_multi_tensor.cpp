#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "checks/call_text.h"
#include "checks/check.h"
#include "checks/finding_text.h"
#include "checks/run_state.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum CollectiveKind;

bool takes_copies(const CollectiveEvent& event) {
  return !event.coalesced &&
         (event.kind == kAllReduce || event.kind == kBroadcast || event.kind == kReduce);
}

bool all_known(const ListedIds& ids) {
  return !ids.empty() && std::ranges::find(ids, TensorId{0}) == ids.end();
}

bool are_different(const ListedIds& ids) {
  return all_known(ids) && std::ranges::count(ids, ids[0]) < std::ssize(ids);
}

std::string_view noun(const CollectiveEvent& event) {
  if (all_known(event.gradients_of)) return "gradient";
  return all_known(event.tensors) ? "registered tensor" : "tensor";
}

bool shapes_differ(const CollectiveEvent& event, const RunState& state) {
  if (event.elements_min != event.elements_max) return true;
  const auto& ids = all_known(event.gradients_of) ? event.gradients_of : event.tensors;
  const TensorState* first = ids.empty() ? nullptr : state.tensor(ids[0]);
  return first != nullptr && std::ranges::any_of(ids, [&](TensorId id) {
           const TensorState* tensor = state.tensor(id);
           return tensor != nullptr && tensor->info.shape != first->info.shape;
         });
}

std::string_view consequence(const CollectiveEvent& event, const RunState& state) {
  if (event.backend == "nccl") return "NCCL takes one tensor per call and refuses a list";
  const bool is_refused = event.kind == kReduce || shapes_differ(event, state);
  if (is_refused) return "this backend refuses such a list";
  return event.kind == kBroadcast ? "this backend copies one of them over the others"
                                  : "this backend adds them to each other";
}

/// collective-multi-tensor; docs/checks/collective-multi-tensor.md
class CollectiveMultiTensor final : public Check {
 public:
  void on_collective(const CollectiveEvent& event, const RunState& state,
                     Findings& findings) override {
    if (!takes_copies(event) || event.list < 2 || event.list == event.devices) return;
    const bool different = event.distinct_storages > event.devices ||
                           are_different(event.gradients_of) || are_different(event.tensors);
    if (!different) return;

    Finding finding;
    place_in(event.module, state, finding);
    finding.phase = Phase::kReduce;
    finding.severity = Severity::kError;
    finding.op = call_word(event.kind);
    finding.what = fmt::format("{} passed as one list; {}",
                               counted(event.list, fmt::format("different {}", noun(event))),
                               consequence(event, state));
    finding.why = "a list means one copy per local device of what is one tensor";
    finding.fixes = {
        {"one call per tensor, or per flat buffer that holds them all", Applicability::kSafe}};
    if (event.kind == kAllReduce) {
      finding.fixes.insert(finding.fixes.begin(),
                           {"allreduce_coalesced, which reduces each tensor of a list by itself",
                            Applicability::kSafe});
    }
    finding.facts = {{fact::kBackend, event.backend},
                     {fact::kListLength, event.list},
                     {fact::kDistinctStoragesCount, event.distinct_storages},
                     {fact::kNumelMin, event.elements_min},
                     {fact::kNumelMax, event.elements_max}};
    add_site("called", event.stack, state, finding);
    findings.push_back(std::move(finding));
  }
};
}  // namespace

std::unique_ptr<Check> make_collective_multi_tensor() {
  return std::make_unique<CollectiveMultiTensor>();
}

}  // namespace ddpscope
