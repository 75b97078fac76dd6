#pragma once

#include "faults/fault.h"

namespace ddpscope {

// Faults that are made at one place, each time the program comes there.

template <class Act>
std::unique_ptr<Fault> at_layer(Act act) {
  struct AtLayer final : Fault {
    explicit AtLayer(Act&& act) : act(std::move(act)) {}
    at::Tensor layer(const LayerCall& call) override {
      planted();
      return act(call);
    }
    Act act;
  };
  return std::make_unique<AtLayer>(std::move(act));
}

template <class Act>
std::unique_ptr<Fault> at_label_loss(Act act) {
  struct AtLabelLoss final : Fault {
    explicit AtLabelLoss(Act&& act) : act(std::move(act)) {}
    at::Tensor label_loss(const LabelLossCall& call) override {
      planted();
      return act(call);
    }
    Act act;
  };
  return std::make_unique<AtLabelLoss>(std::move(act));
}

template <class Act>
std::unique_ptr<Fault> at_loss(Act act) {
  struct AtLoss final : Fault {
    explicit AtLoss(Act&& act) : act(std::move(act)) {}
    void before_backward(at::Tensor& loss) override {
      planted();
      act(loss);
    }
    Act act;
  };
  return std::make_unique<AtLoss>(std::move(act));
}

template <class Act>
std::unique_ptr<Fault> before_step(Act act) {
  struct BeforeStep final : Fault {
    explicit BeforeStep(Act&& act) : act(std::move(act)) {}
    void before_step(torch::optim::Optimizer& optimizer) override {
      planted();
      act(optimizer);
    }
    Act act;
  };
  return std::make_unique<BeforeStep>(std::move(act));
}

template <class Act>
std::unique_ptr<Fault> after_step(Act act) {
  struct AfterStep final : Fault {
    explicit AfterStep(Act&& act) : act(std::move(act)) {}
    void after_step(torch::optim::Optimizer& optimizer) override {
      planted();
      act(optimizer);
    }
    Act act;
  };
  return std::make_unique<AfterStep>(std::move(act));
}

/// `act` is called the first time alone.
template <class Act>
auto once(Act act) {
  return [act = std::move(act), is_done = false](auto& at) mutable {
    if (!std::exchange(is_done, true)) act(at);
  };
}

}  // namespace ddpscope
