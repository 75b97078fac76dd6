#include "hooks/gathered_values.h"

#include "hooks/autograd_watch.h"
#include "hooks/survey_outputs.h"

namespace ddpscope {
namespace {
/// Parameters that ranks keep in shards are leaves.
bool is_followed_value(const at::Tensor& tensor) {
  const bool has_path = tensor.requires_grad() && !tensor.is_leaf();
  return has_path || SurveyOutputs::here().hides_gradient(tensor);
}
}  // namespace

void follow_gathered(Capture& capture, const CallFacts& facts, CollectiveEvent& event) {
  if (facts.gathered.empty() || facts.tensors.empty() || !capture.marker().surveying()) return;
  const at::Tensor& own = facts.tensors.front();
  if (inside_backward() || !own.defined() || !is_followed_value(own)) return;
  event.gathered_rows = own.dim() > 0 ? own.size(0) : 1;
  for (const at::Tensor& tensor : facts.gathered) {
    if (!tensor.defined()) continue;
    TensorSlot& slot = capture.tensors().slot(tensor);
    slot.computed = true;
    event.gathered.push_back(slot.id);
  }
}

}  // namespace ddpscope
