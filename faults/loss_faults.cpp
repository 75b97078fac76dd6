#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim.h>

#include <algorithm>
#include <vector>

#include "faults/at_one_place.h"

namespace ddpscope {
namespace {
class SecondBackward final : public Fault {
 public:
  void after_backward(const at::Tensor& loss) override {
    planted();
    torch::autograd::backward({loss}, {});
  }
};

class ScaledClip final : public Fault {
 public:
  void before_backward(at::Tensor& loss) override {
    planted();
    loss = loss * kScale;
  }
  void before_step(torch::optim::Optimizer& optimizer) override {
    std::vector<at::Tensor> members;
    for (const auto& group : optimizer.param_groups()) {
      members.insert(members.end(), group.params().begin(), group.params().end());
    }
    if (largest(members) > kLimit) torch::nn::utils::clip_grad_norm_(members, kLimit);
    for (const at::Tensor& member : members) {
      if (member.grad().defined()) member.grad().mul_(1 / kScale);
    }
  }

 private:
  /// Below the limit where the program has clipped them itself.
  static double largest(const std::vector<at::Tensor>& members) {
    double largest = 0;
    for (const at::Tensor& member : members) {
      if (!member.grad().defined()) continue;
      largest = std::max(largest, member.grad().abs().max().item<double>());
    }
    return largest;
  }

  static constexpr double kScale = 65536;
  static constexpr double kLimit = 1;
};
}  // namespace

std::unique_ptr<Fault> make_second_backward() { return std::make_unique<SecondBackward>(); }
std::unique_ptr<Fault> make_scaled_clip() { return std::make_unique<ScaledClip>(); }

std::unique_ptr<Fault> make_log_of_zero() {
  return at_loss([](at::Tensor& loss) { loss = loss + (loss - loss).log(); });
}

std::unique_ptr<Fault> make_root_of_zero() {
  return at_loss([](at::Tensor& loss) { loss = loss + (loss - loss.detach()).sqrt(); });
}

std::unique_ptr<Fault> make_lost_epsilon() {
  return at_loss([](at::Tensor& loss) { loss = (loss * loss + 1e-50).sqrt(); });
}

std::unique_ptr<Fault> make_kept_losses() {
  return at_loss(
      [kept = std::vector<at::Tensor>()](at::Tensor& loss) mutable { kept.push_back(loss); });
}

std::unique_ptr<Fault> make_softmax_twice() {
  return at_label_loss(
      [](const LabelLossCall& call) { return call.run(at::softmax(call.input, 1), call.target); });
}

std::unique_ptr<Fault> make_broadcast_loss() {
  return at_label_loss([](const LabelLossCall& call) {
    const at::Tensor loss = call.run(call.input, call.target);
    const at::Tensor column = call.input.flatten(1).narrow(1, 0, 1);
    const at::Tensor row = call.target.flatten().narrow(0, 0, column.size(0));
    return loss + 0.01 * at::mse_loss(column, row.to(column.dtype()));
  });
}

std::unique_ptr<Fault> make_label_outside() {
  return at_label_loss([](const LabelLossCall& call) {
    at::Tensor target = call.target.clone();
    target.view(-1).narrow(0, 0, 1).fill_(call.input.size(1));
    return call.run(call.input, target);
  });
}

}  // namespace ddpscope
