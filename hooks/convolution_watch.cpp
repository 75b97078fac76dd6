#include "hooks/convolution_watch.h"

#include <ATen/Context.h>
#include <ATen/ops/convolution_ops.h>

#include <array>
#include <atomic>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/inferred_calls.h"
#include "hooks/interposed.h"

namespace ddpscope {
namespace {
// Hashes of module, shape and type that were met; a hash stands at or behind its own place.
constexpr std::size_t kShapes = 1 << 14;
constexpr std::size_t kTries = 16;
constinit std::array<std::atomic<std::uint64_t>, kShapes> met{};

/// False for what was met before, and where there is no place left.
bool is_new(std::uint64_t hash) {
  if (hash == 0) hash = 1;
  for (std::size_t i = 0; i < kTries; ++i) {
    std::uint64_t there = 0;
    if (met[(hash + i) % kShapes].compare_exchange_strong(there, hash)) return true;
    if (there == hash) return false;
  }
  return false;
}

std::uint64_t hash_of(const at::Tensor& input, ModuleId module) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  mix(module);
  mix(static_cast<std::uint64_t>(input.scalar_type()));
  for (const std::int64_t size : input.sizes()) mix(static_cast<std::uint64_t>(size));
  return hash;
}

void note(Capture& capture, const at::Tensor& input) {
  const ModuleId module = ModuleCalls::innermost();
  if (!is_new(hash_of(input, module))) return;
  TensorInfo info = describe(input, 0);
  capture.put_large(ConvolutionShapeEvent{.at = capture.marker().now(),
                                          .module = module,
                                          .op = "aten::convolution",
                                          .shape = std::move(info.shape),
                                          .dtype = std::move(info.dtype),
                                          .device = std::move(info.device)});
}

bool is_searched(const at::Tensor& input) {
  return at::globalContext().benchmarkCuDNN() && input.defined() && backward_depth() == 0 &&
         !input.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

template <class Function>
struct Convolution;
template <class Result, class... Rest>
struct Convolution<Result(const at::Tensor&, Rest...)> {
  using Hooked = Interposed<Convolution, Result(const at::Tensor&, Rest...)>;
  static Result call(const at::Tensor& input, Rest... rest) {
    if (is_searched(input)) {
      as_guest(
          "convolution", [&](Capture& capture) { note(capture, input); }, Timed::kSampled);
    }
    const auto run = [&] { return Hooked::original(input, std::forward<Rest>(rest)...); };
    return run_operator(at::_ops::convolution::name, run, input, rest...);
  }
};
}  // namespace

bool install_convolution_watch() noexcept {
  using Watched = Convolution<at::_ops::convolution::schema>;
  return Watched::Hooked::install_in(
      operator_hooks(),
      "_ZN2at4_ops11convolution4callERKNS_6TensorES4_RKSt8optionalIS2_EN3c108ArrayRefINS9_"
      "6SymIntEEESC_SC_bSC_SB_",
      Watched::call);
}

}  // namespace ddpscope
