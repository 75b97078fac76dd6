#include "hooks/own_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string_view>

namespace ddpscope {
namespace {
// Another name costs time alone: what it stands for is looked at for nothing.
constexpr auto kOfLibTorch = std::to_array<std::string_view>({"_c10d_functional",
                                                              "_c10d_functional_autograd",
                                                              "_dtensor",
                                                              "_quantized",
                                                              "_test",
                                                              "aten",
                                                              "c10d",
                                                              "ddpscope",
                                                              "inductor",
                                                              "mkl",
                                                              "mkldnn",
                                                              "mkldnn_prepacked",
                                                              "onednn",
                                                              "prepacked",
                                                              "profiler",
                                                              "quantization",
                                                              "quantized",
                                                              "sparse",
                                                              "static_runtime",
                                                              "symm_mem"});

bool is_own(const c10::OperatorHandle& op) {
  const auto space = op.operator_name().getNamespace();
  return space.has_value() && std::ranges::find(kOfLibTorch, *space) == kOfLibTorch.end();
}

std::atomic<int> own_operators{0};

class Listener final : public c10::OpRegistrationListener {
 public:
  explicit Listener(void (*registered)() noexcept) : registered_(registered) {}

  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    if (!is_own(op)) return;
    own_operators.fetch_add(1);
    registered_();
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    if (is_own(op)) own_operators.fetch_sub(1);
  }

 private:
  void (*const registered_)() noexcept;
};
}  // namespace

bool any_own_operators() noexcept { return own_operators.load() > 0; }

void watch_own_operators(void (*registered)() noexcept) {
  auto& dispatcher = c10::Dispatcher::singleton();
  // Never ended: a program's libraries go in an order of their own.
  static const auto* const leaked = new c10::RegistrationHandleRAII(
      dispatcher.addRegistrationListener(std::make_unique<Listener>(registered)));
  static_cast<void>(leaked);
}

}  // namespace ddpscope
