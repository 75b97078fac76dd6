#include "hooks/range_ops.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/binary_cross_entropy_with_logits_ops.h>
#include <ATen/ops/cross_entropy_loss_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/gather_ops.h>
#include <ATen/ops/index_select_ops.h>
#include <ATen/ops/kl_div_ops.h>
#include <ATen/ops/nll_loss2d_ops.h>
#include <ATen/ops/nll_loss_nd_ops.h>
#include <ATen/ops/nll_loss_ops.h>
#include <ATen/ops/one_hot_ops.h>
#include <ATen/ops/scatter_add_ops.h>
#include <ATen/ops/scatter_ops.h>

#include <limits>
#include <tuple>
#include <utility>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/inferred_calls.h"
#include "hooks/interposed.h"
#include "hooks/judged_outputs.h"
#include "hooks/loss_targets.h"
#include "hooks/near_tls.h"
#include "hooks/range_scan.h"

namespace ddpscope {
namespace {
namespace ops = at::_ops;
constexpr char kTargets[] = "target";
constexpr std::int64_t kMaxInput = 1 << 20;  // elements of a loss's input that are looked at
constexpr double kSmoothed = 0.3;

DDPSCOPE_NEAR thread_local int range_depth = 0;

// What the program called; what that calls itself is part of it.
struct Call {
  Call() { ++range_depth; }
  ~Call() { --range_depth; }
  static bool is_looked_at() {
    const Capture* capture = Capture::active();
    return range_depth == 1 && capture != nullptr && capture->options().values &&
           !inside_backward();
  }
  static bool may_wait() {
    const Capture* capture = Capture::active();
    return capture != nullptr && capture->options().waits_for_targets;
  }
};

struct Argument {
  const char* op;
  const char* name;
};

// What lies on a device is copied where the program asked for that: it then waits for the device.
at::Tensor readable(const Capture& capture, const at::Tensor& tensor) {
  if (!capture.options().waits_for_targets || tensor.is_cpu()) return tensor;
  const at::NoGradGuard guard;
  return tensor.cpu();
}

/// Returns how many elements were judged; 0 where they cannot be read.
std::int64_t look(Capture& capture, const Argument& argument, const at::Tensor& tensor,
                  const Accepted& accepted) {
  if (!has_shape(tensor)) return 0;
  const auto scan = scan_range(readable(capture, tensor), accepted);
  if (!scan.has_value() || scan->offenders_count == 0) return scan ? scan->judged_count : 0;
  capture.put_large(OutOfRangeEvent{.at = capture.marker().now(),
                                    .op = argument.op,
                                    .module = ModuleCalls::innermost(),
                                    .argument = argument.name,
                                    .tensor = describe(tensor, capture.announce(tensor)),
                                    .judged_count = scan->judged_count,
                                    .offenders_count = scan->offenders_count,
                                    .nan_count = scan->nan_count,
                                    .first_index = scan->first_index,
                                    .minimum = scan->minimum,
                                    .maximum = scan->maximum,
                                    .allowed_min = accepted.minimum,
                                    .allowed_max = accepted.maximum,
                                    .ignore_index = accepted.ignored,
                                    .stack = doing_now(capture).stack});
  return scan->judged_count;
}

void tell_input(Capture& capture, const at::Tensor& input) {
  if (!capture.marker().surveying() || !has_shape(input) || input.numel() > kMaxInput) return;
  const auto scan = scan_range(input, {});
  if (!scan.has_value()) return;
  capture.put_large(LossInputEvent{.at = capture.marker().now(),
                                   .input = capture.announce(input),
                                   .minimum = scan->minimum,
                                   .maximum = scan->maximum});
}

bool is_floating(const at::Tensor& tensor) {
  return c10::isFloatingType(c10::typeMetaToScalarType(tensor.dtype()));
}

Accepted up_to(std::int64_t count) { return {.maximum = static_cast<double>(count - 1)}; }

template <class Op>
struct Labels {
  static constexpr std::size_t kReduction = 3;
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    const at::Tensor& input = std::get<0>(all);
    const at::Tensor& target = std::get<1>(all);
    tell_input(capture, input);
    const auto classes = choices(input, has_shape(input) && input.dim() == 1 ? 0 : 1);
    if (!target.defined() || is_floating(target) || !classes.has_value()) return;
    Accepted accepted = up_to(*classes);
    accepted.ignored = std::get<4>(all).maybe_as_int();
    const std::int64_t valid = look(capture, {Op::name, "target"}, target, accepted);
    const bool is_mean = std::get<3>(all) == at::Reduction::Mean;
    if (valid == 0 || !is_mean || !capture.options().compares_ranks) return;
    if (!c10::GradMode::is_enabled() || !input.requires_grad()) return;
    add_mean_loss(capture, {.op = Op::name,
                            .module = ModuleCalls::innermost(),
                            .classes = *classes,
                            .targets = valid});
  }
};

template <class Op>
struct Probabilities {
  static constexpr std::size_t kReduction = 3;
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    look(capture, {Op::name, "input"}, std::get<0>(all), {.maximum = 1});
    look(capture, {Op::name, "target"}, std::get<1>(all), {.maximum = 1});
  }
};

struct Logits {
  using Op = ops::binary_cross_entropy_with_logits;
  static constexpr std::size_t kReduction = 4;
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    const at::Tensor& input = std::get<0>(all);
    const at::Tensor& target = std::get<1>(all);
    tell_input(capture, input);
    // What is left out by a mask or a weight may be any number.
    const auto& weight = std::get<2>(all);
    const bool may_leave_out =
        std::get<4>(all) == at::Reduction::None || (weight.has_value() && weight->defined());
    const bool is_trained = input.requires_grad() || target.requires_grad();  // or swapped
    if (may_leave_out || !c10::GradMode::is_enabled() || !is_trained) return;
    if (!has_shape(target)) return;
    // Some smooth the labels of a discriminator up to 1.2, on purpose.
    const auto scan =
        scan_range(readable(capture, target), {.minimum = -kSmoothed, .maximum = 1 + kSmoothed});
    if (!scan.has_value() || scan->offenders_count == scan->nan_count) return;
    look(capture, {Op::name, "target"}, target, {.maximum = 1});
  }
};

struct Divergence {
  using Op = ops::kl_div;
  static constexpr std::size_t kReduction = 2;
  /// Logarithms of probabilities are 0 at most: these are probabilities.
  static void look_at_input(Capture& capture, const at::Tensor& input) {
    constexpr double kNoMinimum = std::numeric_limits<double>::lowest();
    if (!has_shape(input) || !input.requires_grad() || !c10::GradMode::is_enabled()) return;
    const auto scan = scan_range(readable(capture, input), {.maximum = 1});
    if (!scan.has_value() || scan->offenders_count > 0 || scan->maximum <= 0) return;
    look(capture, {Op::name, "input"}, input, {.minimum = kNoMinimum, .maximum = 0});
  }
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    look_at_input(capture, std::get<0>(all));
    const at::Tensor& target = std::get<1>(all);
    const bool holds_logarithms = std::get<3>(all);
    const bool may_leave_out = std::get<2>(all) == at::Reduction::None;
    if (holds_logarithms || may_leave_out || !has_shape(target)) return;
    if (!c10::GradMode::is_enabled() || !std::get<0>(all).requires_grad()) return;
    const auto scan = scan_range(readable(capture, target), {});
    if (!scan.has_value() || scan->offenders_count == scan->nan_count) return;
    look(capture, {Op::name, "target"}, target, {});
  }
};

struct Rows {
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    const auto rows = choices(std::get<0>(all), 0);
    if (rows.has_value()) {
      look(capture, {ops::embedding::name, "index"}, std::get<1>(all), up_to(*rows));
    }
  }
};

template <class Op>
struct Index {
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    const auto count = choices(std::get<0>(all), std::get<1>(all));
    if (count.has_value()) look(capture, {Op::name, "index"}, std::get<2>(all), up_to(*count));
  }
};

struct OneHot {
  template <class All>
  static void look_at(Capture& capture, const All& all) {
    const std::int64_t classes = std::get<1>(all);
    look(capture, {ops::one_hot::name, "index"}, std::get<0>(all),
         classes > 0 ? up_to(classes) : Accepted{});
  }
};

/// The function `Function` of LibTorch, before which `Looker` looks at its arguments.
template <class Op, class Looker, class Function = typename Op::schema>
struct Looked;
template <class Op, class Looker, class Result, class... Arguments>
struct Looked<Op, Looker, Result(Arguments...)> {
  using Hooked = Interposed<Looked, Result(Arguments...)>;
  static constexpr bool kIsLoss = requires { Looker::kReduction; };
  static void see_loss(const Arguments&... arguments) {
    if constexpr (kIsLoss) {
      const auto reduction = std::get<Looker::kReduction>(std::tie(arguments...));
      if (reduction != at::Reduction::None) see_judging(Op::name);
    }
  }
  static Result at_rest(Arguments... arguments) {
    see_loss(arguments...);
    return Hooked::original(std::forward<Arguments>(arguments)...);
  }
  static Result call(Arguments... arguments) {
    see_loss(arguments...);
    const Call here;
    if (Call::is_looked_at()) {
      const auto look = [&](Capture& capture) { Looker::look_at(capture, std::tie(arguments...)); };
      if (Call::may_wait()) {
        as_guest(kTargets, look);
      } else if (reads_values()) {
        as_reader(look);
      }
    }
    const auto run = [&] { return Hooked::original(std::forward<Arguments>(arguments)...); };
    return run_operator(Op::name, run, arguments...);
  }
  static bool install(const char* symbol) noexcept {
    if constexpr (kIsLoss) return Hooked::install_in(operator_hooks(), symbol, call, at_rest);
    return Hooked::install_in(operator_hooks(), symbol, call);
  }
};

template <class Op>
using LabelLoss = Looked<Op, Labels<Op>>;
template <class Op>
using Indexed = Looked<Op, Index<Op>>;
}  // namespace

bool install_range_ops() noexcept {
  bool live = LabelLoss<ops::cross_entropy_loss>::install(
      "_ZN2at4_ops18cross_entropy_loss4callERKNS_6TensorES4_RKSt8optionalIS2_ElN3c106SymIntEd");
  live &= LabelLoss<ops::nll_loss_nd>::install(
      "_ZN2at4_ops11nll_loss_nd4callERKNS_6TensorES4_RKSt8optionalIS2_ElN3c106SymIntE");
  live &= LabelLoss<ops::nll_loss>::install(
      "_ZN2at4_ops8nll_loss4callERKNS_6TensorES4_RKSt8optionalIS2_ElN3c106SymIntE");
  live &= LabelLoss<ops::nll_loss2d>::install(
      "_ZN2at4_ops10nll_loss2d4callERKNS_6TensorES4_RKSt8optionalIS2_ElN3c106SymIntE");
  live &= Looked<ops::binary_cross_entropy, Probabilities<ops::binary_cross_entropy>>::install(
      "_ZN2at4_ops20binary_cross_entropy4callERKNS_6TensorES4_RKSt8optionalIS2_El");
  live &= Looked<ops::binary_cross_entropy_with_logits, Logits>::install(
      "_ZN2at4_ops32binary_cross_entropy_with_logits4callERKNS_6TensorES4_RKSt8optionalIS2_"
      "ES8_l");
  live &= Looked<ops::kl_div, Divergence>::install("_ZN2at4_ops6kl_div4callERKNS_6TensorES4_lb");
  live &= Looked<ops::embedding, Rows>::install(
      "_ZN2at4_ops9embedding4callERKNS_6TensorES4_N3c106SymIntEbb");
  live &= Looked<ops::one_hot, OneHot>::install("_ZN2at4_ops7one_hot4callERKNS_6TensorEl");
  live &= Indexed<ops::gather>::install("_ZN2at4_ops6gather4callERKNS_6TensorElS4_b");
  live &= Indexed<ops::index_select>::install("_ZN2at4_ops12index_select4callERKNS_6TensorElS4_");
  live &= Indexed<ops::scatter_add>::install("_ZN2at4_ops11scatter_add4callERKNS_6TensorElS4_S4_");
  live &= Indexed<ops::scatter_src>::install("_ZN2at4_ops11scatter_src4callERKNS_6TensorElS4_S4_");
  live &= Indexed<ops::scatter_value>::install(
      "_ZN2at4_ops13scatter_value4callERKNS_6TensorElS4_RKN3c106ScalarE");
  return live;
}

}  // namespace ddpscope
