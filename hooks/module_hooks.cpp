#include "hooks/module_hooks.h"

#include <c10/core/GradMode.h>
#include <torch/nn/modules.h>

#include <mutex>
#include <type_traits>

#include "hooks/call_tensors.h"
#include "hooks/capture.h"
#include "hooks/graph_samples.h"
#include "hooks/interposed.h"
#include "hooks/module_call.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

// Of float16 alone the largest element is followed: it ends at 65504.
inline void see_half(const Module& module, const at::Tensor& result) {
  if (!reads_values() || !result.defined() || result.scalar_type() != at::kHalf) return;
  if (!c10::GradMode::is_enabled()) return;
  as_reader([&](Capture& capture) {
    const ValueRange range = range_of(result);
    if (range.elements == 0) return;
    capture.put(HalfOutputEvent{
        .at = capture.marker().now(), .module = module_id(&module), .absmax = range.absmax});
  });
}

template <class Method>
struct Forward;

// The class and the arguments together name one function.
template <class Layer, class Result, class... Arguments>
struct Forward<Result (Layer::*)(Arguments...)> {
  using Hooked = Interposed<Forward, Result(Layer*, Arguments...)>;
  static constexpr bool kReturnsOneTensor = std::is_same_v<Result, at::Tensor>;

  DDPSCOPE_HOT static Result call(Layer* self, Arguments... arguments) {
    ModuleCall call(*self);
    if (call.is_hooked()) call.begin(CallTensors::of(arguments...));
    Result result = Hooked::original(self, std::forward<Arguments>(arguments)...);
    if constexpr (kReturnsOneTensor) {
      see_half(*self, result);
      GraphSamples::see_layer(*self, result);
    }
    if (!call.is_hooked()) return result;
    if constexpr (kReturnsOneTensor) {
      call.end({result}, &result);
    } else {
      call.end(CallTensors::of(result), nullptr);
    }
    return result;
  }
  static bool install(const char* symbol) noexcept { return Hooked::install(symbol, call); }
};

template <class Layer>
bool is_base_of(const Module& module) {
  return dynamic_cast<const Layer*>(&module) != nullptr;
}

template <class Layer>
using ForwardOf = Forward<decltype(&Layer::forward)>;

std::array builtins = {
#define DDPSCOPE_FORWARD(Layer, symbol)                                                \
  BuiltinForward{.name = #Layer,                                                       \
                 .type = &typeid(torch::nn::Layer),                                    \
                 .returns_one_tensor = ForwardOf<torch::nn::Layer>::kReturnsOneTensor, \
                 .is_base_of = is_base_of<torch::nn::Layer>,                           \
                 .live = false},
#include "forward_list.inc"
#undef DDPSCOPE_FORWARD
};
}  // namespace

bool install_module_hooks() noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  bool all_live = true;
  std::size_t next = 0;
  const auto note = [&](bool live) {
    builtins[next++].live = live;
    all_live &= live;
  };
#define DDPSCOPE_FORWARD(Layer, symbol) note(ForwardOf<torch::nn::Layer>::install(symbol));
#include "forward_list.inc"
#include "model/hot_code.h"
#undef DDPSCOPE_FORWARD
  return all_live;
}

std::span<const BuiltinForward> builtin_forwards() { return builtins; }

}  // namespace ddpscope
