#include "hooks/judged_outputs.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/huber_loss_ops.h>
#include <ATen/ops/l1_loss_ops.h>
#include <ATen/ops/mse_loss_ops.h>
#include <ATen/ops/smooth_l1_loss_ops.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/inferred_calls.h"
#include "hooks/interposed.h"
#include "hooks/near_tls.h"

namespace ddpscope {
namespace {
namespace ops = at::_ops;
constexpr int kMostOfStep = 4;  // more say nothing new

struct RanInTraining {
  const char* op = nullptr;
  ModuleId module = 0;
  TensorId weight = 0;
};
DDPSCOPE_NEAR constinit thread_local RanInTraining ran;

/// What ran so and was not judged before a backward, as what labels a batch.
struct Unjudged {
  int in_row = 0;  ///< backwards after such
  bool is_new = false;
};
DDPSCOPE_NEAR constinit thread_local Unjudged unjudged;

struct Told {
  std::int64_t step = -1;
  int outputs = 0;
};
constinit thread_local Told told;

void tell(Capture& capture, const char* op, const RanInTraining& of) {
  const Stamp now = capture.marker().now();
  if (told.step != now.step) told = {.step = now.step};
  if (++told.outputs > kMostOfStep) return;
  capture.put_large(JudgedOutputEvent{.at = now,
                                      .op = op,
                                      .training_op = of.op,
                                      .module = of.module,
                                      .in_eval = capture.modules().in_eval(of.module),
                                      .weight = of.weight,
                                      .unjudged_in_row = unjudged.in_row,
                                      .stack = doing_now(capture).stack});
}

struct Loss {
  template <class... More>
  static bool judges(const at::Tensor&, const at::Tensor&, std::int64_t reduction, const More&...) {
    return reduction != at::Reduction::None;
  }
};

/// Predictions and labels have one shape.
struct Comparison {
  static bool judges(const at::Tensor& predicted, const at::Tensor& labels) {
    return predicted.defined() && labels.defined() && labels.numel() > 1 &&
           predicted.sizes() == labels.sizes();
  }
};

template <class Op, class Kind, class Function = typename Op::schema>
struct Judging;
template <class Op, class Kind, class Result, class... Arguments>
struct Judging<Op, Kind, Result(Arguments...)> {
  using Hooked = Interposed<Judging, Result(Arguments...)>;
  static void see(const Arguments&... arguments) {
    if (ran.op != nullptr && Kind::judges(arguments...)) see_judging(Op::name);
  }
  static Result call(Arguments... arguments) {
    see(arguments...);
    const auto run = [&] { return Hooked::original(std::forward<Arguments>(arguments)...); };
    return run_operator(Op::name, run, arguments...);
  }
  static Result at_rest(Arguments... arguments) {
    see(arguments...);
    return Hooked::original(std::forward<Arguments>(arguments)...);
  }
  static void install(const char* symbol) noexcept {
    Hooked::install_in(operator_hooks(), symbol, call, at_rest);
  }
};
}  // namespace

void ran_in_training(const char* op, ModuleId module, TensorId weight) noexcept {
  if (ran.op == nullptr) ran = {.op = op, .module = module, .weight = weight};
}

void see_trained() noexcept {
  const bool is_left = unjudged.is_new || ran.op != nullptr;
  unjudged = {.in_row = is_left ? unjudged.in_row + 1 : 0};
  ran = {};
}

void see_judging(const char* op) noexcept {
  if (ran.op == nullptr) return;
  const RanInTraining of = std::exchange(ran, {});
  unjudged.is_new |= c10::GradMode::is_enabled();
  if (c10::GradMode::is_enabled()) return;
  as_guest("training_op", [&](Capture& capture) { tell(capture, op, of); });
}

void install_judging_ops() noexcept {
  Judging<ops::mse_loss, Loss>::install("_ZN2at4_ops8mse_loss4callERKNS_6TensorES4_l");
  Judging<ops::l1_loss, Loss>::install("_ZN2at4_ops7l1_loss4callERKNS_6TensorES4_l");
  Judging<ops::smooth_l1_loss, Loss>::install(
      "_ZN2at4_ops14smooth_l1_loss4callERKNS_6TensorES4_ld");
  Judging<ops::huber_loss, Loss>::install("_ZN2at4_ops10huber_loss4callERKNS_6TensorES4_ld");
  Judging<ops::eq_Tensor, Comparison>::install("_ZN2at4_ops9eq_Tensor4callERKNS_6TensorES4_");
}

}  // namespace ddpscope
