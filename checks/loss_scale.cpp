#include "checks/loss_scale.h"

#include <cmath>
#include <string_view>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxProducts = 4096;  // of programs that run forward alone
}  // namespace

void LossScale::on_op(const OpEvent& event) {
  const std::string_view op = event.op;
  const bool is_product = event.factor != 1 || op.starts_with("aten::div") || op == "aten::mul";
  if (!is_product || event.outputs.size() != 1) return;
  if (products_.size() >= kMaxProducts) products_.clear();
  products_[event.outputs.front().id] = event.factor;
}

void LossScale::on_backward(const BackwardEvent& event) {
  is_now_ = event.surveyed && !event.roots.empty();
  if (is_now_) {
    const auto root = products_.find(event.roots.front());
    is_product_ = root != products_.end() || event.root_gradient != 1;
    last_ = event.root_gradient * (root != products_.end() ? root->second : 1);
  }
  products_.clear();
}

bool LossScale::may_be(double divisor) const {
  if (!(divisor > 1) || std::isinf(divisor)) return false;
  if (!last_.has_value()) return true;
  const double doublings = std::log2(divisor / *last_);
  return *last_ != 1 && std::abs(doublings - std::round(doublings)) < 1e-6;
}

void LossScale::clear() {
  products_.clear();
  last_.reset();
  is_now_ = is_product_ = false;
}

}  // namespace ddpscope
