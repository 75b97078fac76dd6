#include "hooks/module_hooks.h"

#include <torch/nn/modules.h>

#include <array>
#include <exception>

#include "hooks/interposed.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

// Filled at start-up, before the first forward is hooked.
constexpr std::size_t kMaxHooks = 8;
std::array<ModuleHook, kMaxHooks> hooks;
std::size_t hook_count = 0;

class ForwardCall {
 public:
  explicit ForwardCall(const Module& module)
      : module_(module), exceptions_(std::uncaught_exceptions()) {
    for (std::size_t i = 0; i < hook_count; ++i) hooks[i].before(module_);
  }
  ~ForwardCall() {
    const bool threw = std::uncaught_exceptions() > exceptions_;
    for (std::size_t i = hook_count; i > 0; --i) hooks[i - 1].after(module_, threw);
  }
  ForwardCall(const ForwardCall&) = delete;
  ForwardCall& operator=(const ForwardCall&) = delete;

 private:
  const Module& module_;
  int exceptions_;
};

// `Layer` is the class, `Arguments` are those of its forward: together they name one function.
template <class Layer, class Result, class... Arguments>
struct Forward {
  using Hooked = Interposed<Forward, Result(Layer*, Arguments...)>;
  static Result call(Layer* self, Arguments... arguments) {
    const ForwardCall forward(*self);
    return Hooked::original(self, std::forward<Arguments>(arguments)...);
  }
  static bool install(const char* symbol) noexcept { return Hooked::install(symbol, call); }
};

using TensorPair = std::tuple<at::Tensor, at::Tensor>;
using torch::nn::GRUImpl;
using torch::nn::LSTMImpl;
using LstmForward = Forward<LSTMImpl, std::tuple<at::Tensor, TensorPair>, const at::Tensor&,
                            std::optional<TensorPair>>;
using GruForward = Forward<GRUImpl, TensorPair, const at::Tensor&, at::Tensor>;
}  // namespace

void add_module_hook(const ModuleHook& hook) {
  if (hook_count < hooks.size()) hooks[hook_count++] = hook;
}

bool install_module_hooks() noexcept {
  bool live = true;
#define DDPSCOPE_FORWARD_CONST_REF(Layer, symbol) \
  live &= Forward<torch::nn::Layer, at::Tensor, const at::Tensor&>::install(symbol);
#define DDPSCOPE_FORWARD_VALUE(Layer, symbol) \
  live &= Forward<torch::nn::Layer, at::Tensor, at::Tensor>::install(symbol);
#include "forward_list.inc"
#undef DDPSCOPE_FORWARD_CONST_REF
#undef DDPSCOPE_FORWARD_VALUE
  live &= LstmForward::install(
      "_ZN5torch2nn8LSTMImpl7forwardERKN2at6TensorESt8optionalISt5tupleIJS3_S3_EEE");
  live &= GruForward::install("_ZN5torch2nn7GRUImpl7forwardERKN2at6TensorES3_");
  return live;
}

}  // namespace ddpscope
