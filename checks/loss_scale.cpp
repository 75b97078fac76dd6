#include "checks/loss_scale.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxProducts = 4096;  // of programs that run forward alone
}  // namespace

void LossScale::on_op(const OpEvent& event) {
  if (event.factor == 1 || event.outputs.size() != 1) return;
  if (products_.size() >= kMaxProducts) products_.clear();
  products_[event.outputs.front().id] = event.factor;
}

void LossScale::on_backward(const BackwardEvent& event) {
  is_now_ = event.surveyed && !event.roots.empty();
  if (is_now_) {
    const auto root = products_.find(event.roots.front());
    last_ = root == products_.end() ? 1 : root->second;
  }
  products_.clear();
}

void LossScale::clear() {
  products_.clear();
  last_.reset();
  is_now_ = false;
}

}  // namespace ddpscope
