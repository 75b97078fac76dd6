#include "hooks/survey_outputs.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "hooks/per_thread.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxMade = 1 << 16;

const c10::StorageImpl* storage_below(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.has_storage() ? impl.unsafe_storage().unsafeGetStorageImpl() : nullptr;
}
}  // namespace

const void* node_of(const at::Tensor& tensor) {
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  const bool is_followed = view == nullptr || !view->has_bw_view() ||
                           view->get_creation_meta() == torch::autograd::CreationMeta::DEFAULT;
  return is_followed ? tensor.grad_fn().get() : view->grad_fn_.get();
}

SurveyOutputs& SurveyOutputs::here() { return PerThread<SurveyOutputs>::get(); }

void SurveyOutputs::begin_step_if_new(std::int64_t step) {
  if (step == step_) return;
  step_ = step;
  made_.clear();
  carriers_.clear();
}

void SurveyOutputs::add(const at::Tensor& output, TensorId id) {
  if (ids_.size() < kMaxMade) ids_.push_back(id);
  if (!output.unsafeGetTensorImpl()->requires_grad() || made_.size() >= kMaxMade) return;
  made_.push_back({.node = node_of(output), .output = id});
  if (const c10::StorageImpl* storage = storage_below(output)) {
    carriers_.try_emplace(storage, output.storage().getWeakStorageImpl());
  }
}

std::vector<TensorId> SurveyOutputs::take() {
  carriers_.clear();
  return std::exchange(ids_, {});
}

TensorId SurveyOutputs::made_by(const void* node) const {
  const auto newest = std::find_if(made_.rbegin(), made_.rend(),
                                   [node](const Made& made) { return made.node == node; });
  return newest == made_.rend() ? 0 : newest->output;
}

bool SurveyOutputs::hides_gradient(const at::Tensor& tensor) const {
  if (carriers_.empty() || tensor.unsafeGetTensorImpl()->requires_grad()) return false;
  return carriers_.contains(storage_below(tensor));
}

}  // namespace ddpscope
