#include "checks/sent_parameters.h"

#include <algorithm>

#include "checks/call_text.h"

namespace ddpscope {
namespace {
bool steps_loose_tensors(const RunState& state) {
  for (const auto& [id, optimizer] : state.optimizers()) {
    if (optimizer.steps == 0) continue;
    for (const auto& group : optimizer.groups) {
      for (const OptimizerMember& member : group) {
        const TensorState* tensor = state.tensor(member.tensor);
        if (tensor != nullptr && tensor->registrations.empty()) return true;
      }
    }
  }
  return false;
}
}  // namespace

void SentParameters::on(const CollectiveEvent& event) {
  if (!stepped_ || event.group_size < 2) return;
  if (!brings_tensors(event.kind)) return;
  for (const TensorId id : event.tensors) {
    if (id == 0) continue;
    if (event.is_root) {
      from_here_.insert(id);
    } else {
      sent_[id] = event.kind;
    }
  }
  if (event.kind == CollectiveKind::kAllGather) gathered_ += event.elements * event.group_size;
}

void SentParameters::on(const OptimizerStepEvent&) {
  stepped_ = true;
  most_gathered_ = std::max(most_gathered_, gathered_);
  gathered_ = 0;
}

std::string SentParameters::call_of(TensorId parameter) const {
  const auto sent = sent_.find(parameter);
  return sent == sent_.end() ? "" : std::string(call_word(sent->second));
}

bool SentParameters::gathers(const std::vector<const TensorState*>& parameters,
                             const RunState& state) const {
  std::int64_t elements = 0;
  for (const TensorState* parameter : parameters) elements += parameter->info.elements;
  return std::max(most_gathered_, gathered_) >= elements && elements > 0 &&
         steps_loose_tensors(state);
}

}  // namespace ddpscope
