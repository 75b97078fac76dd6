// Mistakes that one rank makes, or all of them, in a run of several.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <chrono>
#include <limits>
#include <map>
#include <stdexcept>

#include "faults/at_one_place.h"
#include "faults/members.h"
#include "faults/pause.h"

namespace ddpscope {
namespace {
using torch::optim::Optimizer;

void scale_gradients(Optimizer& optimizer, double factor) {
  const c10::NoGradGuard guard;
  for (const at::Tensor& member : all_members(optimizer)) {
    if (member.grad().defined()) member.grad().mul_(factor);
  }
}

class RateApart final : public Fault {
 public:
  void before_step(Optimizer& optimizer) override {
    planted();
    for (auto& group : optimizer.param_groups()) {
      const double rate = group.options().get_lr();
      double& doubled = doubled_[&group];  // until a schedule of the program sets another
      if (rate != doubled) group.options().set_lr(doubled = 2 * rate);
    }
  }

 private:
  std::map<const void*, double> doubled_;
};
}  // namespace

std::unique_ptr<Fault> make_weight_apart() {
  return after_step(once([](Optimizer& optimizer) {
    const c10::NoGradGuard guard;
    at::Tensor element = first_members(optimizer).front();
    while (element.dim() > 0) element = element.select(0, 0);
    element.add_(1e-3);
  }));
}

std::unique_ptr<Fault> make_slow_rank() {
  return at_loss([pause = Pause(std::chrono::milliseconds(20))](at::Tensor&) mutable {
    pause.as_long_again();
  });
}

std::unique_ptr<Fault> make_sum_not_divided() {
  return before_step([](Optimizer& optimizer) {
    scale_gradients(optimizer, static_cast<double>(ranks_of_fault()));
  });
}

std::unique_ptr<Fault> make_divided_twice() {
  return before_step([](Optimizer& optimizer) {
    scale_gradients(optimizer, 1 / static_cast<double>(ranks_of_fault()));
  });
}

std::unique_ptr<Fault> make_gradient_apart() {
  return before_step([](Optimizer& optimizer) {
    const c10::NoGradGuard guard;
    const at::Tensor gradient = first_members(optimizer).front().grad();
    if (gradient.defined()) gradient.mul_(1 + 0.5 * static_cast<double>(rank_of_fault()));
  });
}

std::unique_ptr<Fault> make_rate_apart() { return std::make_unique<RateApart>(); }

std::unique_ptr<Fault> make_nan_on_one_rank() {
  return at_loss([](at::Tensor& loss) { loss = loss * std::numeric_limits<double>::quiet_NaN(); });
}

std::unique_ptr<Fault> make_rank_throws() {
  return at_loss([](at::Tensor&) { throw std::runtime_error("planted by ddpscope selftest"); });
}

}  // namespace ddpscope
