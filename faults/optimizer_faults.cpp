#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "faults/at_one_place.h"
#include "faults/members.h"
#include "faults/pause.h"

namespace ddpscope {
namespace {
using torch::optim::Optimizer;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ThawedMember final : public Fault {
 public:
  void before_step(Optimizer& optimizer) override {
    ++steps_;
    if (steps_ == 1) {
      auto& members = first_members(optimizer);
      member_ = members.front();
      members.erase(members.begin());
      member_.set_requires_grad(false);
      member_.mutable_grad().reset();
    } else if (steps_ == kFrozenSteps) {
      planted();
      member_.set_requires_grad(true);
    }
  }

 private:
  static constexpr int kFrozenSteps = 6;
  int steps_ = 0;
  at::Tensor member_;
};

class LeftInEval final : public Fault {
 public:
  bool leaves_out_train() override {
    planted();
    return true;
  }
};

class NeverCleared final : public Fault {
 public:
  bool leaves_out_clearing() override {
    planted();
    return true;
  }
};
}  // namespace

std::unique_ptr<Fault> make_thawed_member() { return std::make_unique<ThawedMember>(); }
std::unique_ptr<Fault> make_left_in_eval() { return std::make_unique<LeftInEval>(); }
std::unique_ptr<Fault> make_never_cleared() { return std::make_unique<NeverCleared>(); }

std::unique_ptr<Fault> make_nan_in_weight() {
  return after_step(once([](Optimizer& optimizer) {
    const c10::NoGradGuard guard;
    first_members(optimizer).front().fill_(kNan);
  }));
}

std::unique_ptr<Fault> make_slow_reads() {
  return after_step([pause = Pause(std::chrono::milliseconds(10))](Optimizer&) mutable {
    pause.as_long_again();
  });
}

std::unique_ptr<Fault> make_member_left_out() {
  return before_step(once([](Optimizer& optimizer) {
    auto& members = first_members(optimizer);
    members.erase(members.begin());
  }));
}

std::unique_ptr<Fault> make_no_members() {
  return before_step([](Optimizer& optimizer) {
    for (auto& group : optimizer.param_groups()) group.params().clear();
  });
}

std::unique_ptr<Fault> make_copied_member() {
  return before_step(once([](Optimizer& optimizer) {
    at::Tensor& member = first_members(optimizer).front();
    member = member.detach().clone().set_requires_grad(true);
  }));
}

std::unique_ptr<Fault> make_member_twice() {
  return before_step(once([](Optimizer& optimizer) {
    auto& members = first_members(optimizer);
    members.push_back(at::Tensor(members.front()));
  }));
}

std::unique_ptr<Fault> make_zero_rate() {
  return before_step([](Optimizer& optimizer) {
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0);
  });
}

std::unique_ptr<Fault> make_nan_clipped() {
  return before_step([](Optimizer& optimizer) {
    const auto members = all_members(optimizer);
    for (const at::Tensor& member : members) {
      if (!member.grad().defined()) continue;
      member.grad().mul_(kNan);
      break;
    }
    torch::nn::utils::clip_grad_norm_(members, 1);
  });
}

std::unique_ptr<Fault> make_negative_limit() {
  return before_step(
      [](Optimizer& optimizer) { torch::nn::utils::clip_grad_norm_(all_members(optimizer), -1); });
}

}  // namespace ddpscope
