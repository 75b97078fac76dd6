// Programs that hook LibTorch themselves: their hooks stay in their places and are called as often.
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>

#include "tests/plugin/twin_runs.h"

namespace ddpscope::test {
namespace {
using torch::autograd::Engine;
using torch::autograd::Variable;

std::atomic<int> operators{0};
int accumulated = 0;
int packed = 0;
int passed_on = 0;

struct CountAccumulated : torch::autograd::PostAccumulateGradHook {
  void operator()(const Variable&) override { ++accumulated; }
};

struct CountPacked : torch::autograd::SavedVariableHooks {
  void call_pack_hook(const at::Tensor& tensor) override {
    ++packed;
    kept = tensor;
  }
  at::Tensor call_unpack_hook() override { return kept; }
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }
  at::Tensor kept;
};

struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    context->save_for_backward({input});
    return input * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    context->get_saved_variables();
    return {gradients[0] * 2};
  }
};

Engine& own_engine() {
  ++passed_on;
  return Engine::get_base_engine();
}
}  // namespace

TEST_CASE("A RecordFunction callback of the program is called as often") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    const auto handle = at::addGlobalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction&)
                                       -> std::unique_ptr<at::ObserverContext> {
          ++operators;
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
    Net net;
    attach_diagnostics(net, quiet());
    train_noted(notes, net, 80);
    at::removeCallback(handle);
    notes.text(std::to_string(operators.load()));
    return operators > 0 ? 0 : 1;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Gradient hooks of the program are called as often") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    int hooked = 0;
    for (const at::Tensor& parameter : net->parameters()) {
      parameter.register_hook([&](const at::Tensor& gradient) { hooked += gradient.defined(); });
      torch::autograd::impl::set_post_acc_grad_hooks(parameter,
                                                     std::make_unique<CountAccumulated>());
    }
    attach_diagnostics(net, quiet());
    train_noted(notes, net);
    notes.text(std::to_string(hooked) + " " + std::to_string(accumulated));
    return hooked > 0 && accumulated > 0 ? 0 : 1;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A post-accumulate hook that frees the gradient computes the same") {
  struct StepAndFree : torch::autograd::PostAccumulateGradHook {
    void operator()(const Variable& parameter) override {
      const torch::NoGradGuard guard;
      const_cast<Variable&>(parameter).sub_(parameter.grad() * 0.01);
      const_cast<Variable&>(parameter).mutable_grad().reset();
    }
  };
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    attach_diagnostics(net, quiet());
    for (const at::Tensor& parameter : net->parameters()) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<StepAndFree>());
    }
    for (int i = 0; i < 8; ++i) net->loss().backward();
    notes.state_of(*net);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("An engine of the program stays in its place") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    torch::autograd::set_default_engine_stub(&own_engine);
    Net net;
    attach_diagnostics(net, quiet());
    train_noted(notes, net);
    notes.text(std::to_string(passed_on));
    return passed_on > 0 ? 0 : 1;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Saved-tensor hooks and functions of the program compute the same") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net;
    attach_diagnostics(net, quiet());
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    for (int i = 0; i < 6; ++i) {
      optimizer.zero_grad();
      const at::Tensor activation = net->first(torch::randn({5, 8}));
      torch::autograd::SavedVariable saved(activation, /*is_output=*/false);
      saved.register_hooks(std::make_unique<CountPacked>());
      const at::Tensor loss = net->second(Twice::apply(saved.unpack())).square().mean();
      loss.backward();
      optimizer.step();
      notes.bits(loss);
    }
    notes.text(std::to_string(packed));
    notes.state_of(*net);
    return packed == 6 ? 0 : 1;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Anomaly mode and a warning handler of the program stay") {
  static int warned = 0;
  struct Count : c10::WarningHandler {
    void process(const c10::Warning&) override { ++warned; }
  };
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Count handler;
    c10::WarningUtils::set_warning_handler(&handler);
    const torch::autograd::DetectAnomalyGuard anomaly;
    TORCH_WARN("of the program");
    Net net;
    attach_diagnostics(net, quiet());
    train_noted(notes, net);
    TORCH_WARN("of the program again");
    notes.text(std::to_string(warned));
    c10::WarningUtils::set_warning_handler(nullptr);
    return warned >= 2 ? 0 : 1;
  });
  CHECK(outcome.exit_code == 0);
}

}  // namespace ddpscope::test
