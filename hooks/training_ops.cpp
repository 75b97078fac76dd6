#include "hooks/training_ops.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <optional>
#include <tuple>

#include "hooks/capture.h"
#include "hooks/inferred_calls.h"
#include "hooks/interposed.h"
#include "hooks/judged_outputs.h"
#include "hooks/mode_asked.h"
#include "hooks/near_tls.h"
#include "hooks/random_state.h"
#include "hooks/replica_bits.h"
#include "model/hot_code.h"
#include "model/node_name.h"
#include "model/reduction_event.h"

namespace ddpscope {
namespace {
using MaybeTensor = std::optional<at::Tensor>;

bool without_grad() { return !c10::GradMode::is_enabled(); }

bool is_survey() {
  const Capture* capture = Capture::active();
  return capture != nullptr && capture->marker().surveying();
}

struct NormTensors {
  const MaybeTensor* weight = nullptr;
  const MaybeTensor* statistics = nullptr;
  std::vector<std::int64_t> input = {};
  NormScope scope = NormScope::kRank;
};

void tell(Capture& capture, const char* op, NormTensors norm = {}) {
  const ModuleId module = ModuleCalls::innermost();
  const auto id_of = [&](const MaybeTensor* tensor) {
    return tensor != nullptr && tensor->has_value() ? capture.announce(**tensor) : 0;
  };
  TrainingOpEvent event{.at = capture.marker().now(),
                        .op = op,
                        .module = module,
                        .grad_mode = !without_grad(),
                        .in_eval = capture.modules().in_eval(module),
                        .weight = id_of(norm.weight),
                        .statistics = id_of(norm.statistics),
                        .input = std::move(norm.input),
                        .scope = norm.scope};
  if (!event.grad_mode) ran_in_training(op, module, event.weight);
  capture.put_large(std::move(event));
}

// Instance norm calls batch norm with the samples as channels.
DDPSCOPE_NEAR thread_local int instance_norms = 0;
class InInstanceNorm {
 public:
  explicit InInstanceNorm(bool is) : count_(is ? 1 : 0) { instance_norms += count_; }
  ~InInstanceNorm() { instance_norms -= count_; }
  InInstanceNorm(const InInstanceNorm&) = delete;
  InInstanceNorm& operator=(const InInstanceNorm&) = delete;

 private:
  int count_;
};

/// Of a batch norm's input; empty where it is not plain.
std::vector<std::int64_t> shape_of(const at::Tensor& input) {
  if (!input.defined() || input.layout() != at::kStrided) return {};
  return input.sizes().vec();
}

bool has_few_values(const at::Tensor& input) noexcept try {
  if (!input.defined() || input.dim() < 2) return false;
  const std::int64_t channels = input.size(1);
  return channels > 0 && input.numel() <= kFewNormValues * channels;
} catch (...) {
  return false;  // a kind of tensor that has no sizes
}

const torch::nn::Module* normalization_with(const MaybeTensor& weight, const MaybeTensor& bias,
                                            const MaybeTensor& mean) {
  for (const MaybeTensor* own : {&weight, &bias, &mean}) {
    if (!own->has_value() || !(*own)->defined()) continue;
    return UserHooks::norm_with((*own)->unsafeGetTensorImpl());
  }
  return nullptr;
}

// Their forward is compiled into the program; it calls one operator with the layer's own tensors.
template <class Run>
at::Tensor as_call_of(const torch::nn::Module* module, const at::Tensor& input, const Run& run) {
  if (module == nullptr) return run();
  HookedCall call(*module, CallSource::kForward);
  if (!call) return run();
  call.begin({input});
  at::Tensor result = run();
  call.end({result}, &result);
  return result;
}

std::atomic<bool> normalizations_live{false};
constinit std::atomic<ScopeOfNorm> scope_of_norm{nullptr};

NormScope scope_of(const MaybeTensor& weight, const MaybeTensor& mean) {
  const ScopeOfNorm scope = scope_of_norm.load(std::memory_order_relaxed);
  const auto impl = [](const MaybeTensor& tensor) {
    const bool is_given = tensor.has_value() && tensor->defined();
    return is_given ? tensor->unsafeGetTensorImpl() : nullptr;
  };
  return scope == nullptr ? NormScope::kRank : scope(impl(weight), impl(mean));
}

template <int kWhich>
struct Normalization {
  using Hooked =
      Interposed<Normalization,
                 at::Tensor(const at::Tensor&, const MaybeTensor&, const MaybeTensor&,
                            const MaybeTensor&, const MaybeTensor&, bool, double, double, bool)>;
  static at::Tensor call(const at::Tensor& input, const MaybeTensor& weight,
                         const MaybeTensor& bias, const MaybeTensor& mean,
                         const MaybeTensor& variance, bool training, double momentum,
                         double epsilon, bool cudnn_enabled) {
    const auto run = [&] {
      return Hooked::original(input, weight, bias, mean, variance, training, momentum, epsilon,
                              cudnn_enabled);
    };
    const InInstanceNorm scope(/*is=*/kWhich == 1);
    if (!UserHooks::any()) return run();
    const auto run_as_operator = [&] {
      return run_operator(kWhich == 0 ? "aten::batch_norm" : "aten::instance_norm", run, input,
                          weight, bias, mean, variance);
    };
    return as_call_of(normalization_with(weight, bias, mean), input, run_as_operator);
  }
};
using InstanceNorm = Normalization<1>;

bool leaves_out(NormScope scope) {
  using enum NormScope;
  return scope == kUnlisted || scope == kOtherThread || scope == kNameless;
}

DDPSCOPE_NEAR thread_local int batch_norms = 0;  ///< that are hooked, and run
struct InBatchNorm {
  InBatchNorm() { ++batch_norms; }
  ~InBatchNorm() { --batch_norms; }
  InBatchNorm(const InBatchNorm&) = delete;
  InBatchNorm& operator=(const InBatchNorm&) = delete;
};

struct BatchNorm {
  using Hooked = Normalization<0>::Hooked;
  DDPSCOPE_HOT static at::Tensor call(const at::Tensor& input, const MaybeTensor& weight,
                                      const MaybeTensor& bias, const MaybeTensor& mean,
                                      const MaybeTensor& variance, bool training, double momentum,
                                      double epsilon, bool cudnn_enabled) {
    if (training) {
      see_forward_begin();
    } else if (without_grad()) {
      ReplicaBits::see_evaluation();
    }
    // Without running statistics there is no other mode: evaluation then says nothing.
    const bool evaluates = training && without_grad() && mean.has_value() && mean->defined();
    if (Capture::watch() == Watch::kNothing && !UserHooks::any()) {
      if (evaluates) ran_in_training("aten::batch_norm");
      return Hooked::original(input, weight, bias, mean, variance, training, momentum, epsilon,
                              cudnn_enabled);
    }
    const bool is_told = evaluates || (!without_grad() && instance_norms == 0 &&
                                       (is_survey() || has_few_values(input)));
    const InBatchNorm scope_of_call;
    const auto run = [&] {
      return Normalization<0>::call(input, weight, bias, mean, variance, training, momentum,
                                    epsilon, cudnn_enabled);
    };
    const auto tell_norm = [&](NormScope scope) {
      as_observer("training_op", [&](Capture& capture) {
        tell(capture, "aten::batch_norm", {&weight, &mean, shape_of(input), scope});
      });
    };
    if (!training) return run();
    if (scope_of_norm.load(std::memory_order_relaxed) == nullptr) {
      if (is_told) tell_norm(NormScope::kRank);
      return run();
    }
    at::Tensor result = run();  // may be what decides it
    const NormScope scope = scope_of(weight, mean);
    const bool is_left_out = !without_grad() && instance_norms == 0 && leaves_out(scope);
    if (is_left_out || (is_told && scope != NormScope::kAllRanks)) tell_norm(scope);
    return result;
  }
};

/// What batch norm calls. TorchScript runs batch norm itself without a call that could be hooked.
struct BatchNormInside {
  using Result = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, std::int64_t>;
  using Hooked =
      Interposed<BatchNormInside,
                 Result(const at::Tensor&, const MaybeTensor&, const MaybeTensor&,
                        const MaybeTensor&, const MaybeTensor&, bool, double, double, bool)>;
  static Result call(const at::Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias,
                     const MaybeTensor& mean, const MaybeTensor& variance, bool training,
                     double momentum, double epsilon, bool cudnn_enabled) {
    const bool is_seen = batch_norms > 0 || instance_norms > 0;
    if (!is_seen && training && !without_grad() && (is_survey() || has_few_values(input))) {
      as_observer("training_op", [&](Capture& capture) {
        tell(capture, "aten::batch_norm", {&weight, &mean, shape_of(input), NormScope::kRank});
      });
    }
    const auto run = [&] {
      return Hooked::original(input, weight, bias, mean, variance, training, momentum, epsilon,
                              cudnn_enabled);
    };
    return run_operator("aten::batch_norm", run, input, weight, bias, mean, variance);
  }
};

constexpr char kDropout[] = "aten::dropout";
constexpr char kDropoutInPlace[] = "aten::dropout_";
constexpr char kAlpha[] = "aten::alpha_dropout";
constexpr char kAlphaInPlace[] = "aten::alpha_dropout_";
constexpr char kFeature[] = "aten::feature_dropout";
constexpr char kFeatureInPlace[] = "aten::feature_dropout_";
constexpr char kFeatureAlpha[] = "aten::feature_alpha_dropout";
constexpr char kFeatureAlphaInPlace[] = "aten::feature_alpha_dropout_";

template <const char* kOp, class Result, class Input>
struct Dropout {
  using Hooked = Interposed<Dropout, Result(Input, double, bool)>;
  static Result call(Input input, double p, bool train) {
    const bool drops = train && p > 0;
    if (drops && without_grad()) as_observer("training_op", [](Capture& c) { tell(c, kOp); });
    if (drops && !without_grad() && is_survey() && input.is_cpu()) {
      as_observer("random", [](Capture& capture) { tell_random_state(capture, kOp); });
    }
    return Hooked::original(input, p, train);
  }
  static Result at_rest(Input input, double p, bool train) {
    if (train && p > 0 && without_grad()) ran_in_training(kOp);
    return Hooked::original(input, p, train);
  }
  static bool install(const char* symbol) noexcept {
    return Hooked::install_for_watched(symbol, call, at_rest);
  }
};

template <const char* kOp>
using NewDropout = Dropout<kOp, at::Tensor, const at::Tensor&>;
template <const char* kOp>
using InPlaceDropout = Dropout<kOp, at::Tensor&, at::Tensor&>;
}  // namespace

void ask_norms(ScopeOfNorm scope) noexcept { scope_of_norm.store(scope); }

void see_norm_over_ranks(std::int64_t values, std::int64_t channels) noexcept {
  if (values > kFewNormValues) return;
  as_observer("training_op", [&](Capture& capture) {
    capture.put_large(TrainingOpEvent{.at = capture.marker().now(),
                                      .op = kSyncBatchNorm,
                                      .module = last_mode_asked(),
                                      .grad_mode = !without_grad(),
                                      .input = {values, channels}});
  });
}

bool normalizations_are_live() noexcept { return normalizations_live.load(); }

bool install_training_ops() noexcept {
  install_mode_asked();
  install_judging_ops();
  bool live = BatchNorm::Hooked::install(
      "_ZN2at4_ops10batch_norm4callERKNS_6TensorERKSt8optionalIS2_ES8_S8_S8_bddb", BatchNorm::call);
  live &= BatchNormInside::Hooked::install_for_watched(
      "_ZN2at4_ops22_batch_norm_impl_index4callERKNS_6TensorERKSt8optionalIS2_ES8_S8_S8_bddb",
      BatchNormInside::call);
  live &= InstanceNorm::Hooked::install_in(
      operator_hooks(),
      "_ZN2at4_ops13instance_norm4callERKNS_6TensorERKSt8optionalIS2_ES8_S8_S8_bddb",
      InstanceNorm::call);
  normalizations_live = live;
  live &= NewDropout<kDropout>::install("_ZN2at4_ops7dropout4callERKNS_6TensorEdb");
  live &= InPlaceDropout<kDropoutInPlace>::install("_ZN2at4_ops8dropout_4callERNS_6TensorEdb");
  live &= NewDropout<kAlpha>::install("_ZN2at4_ops13alpha_dropout4callERKNS_6TensorEdb");
  live &= InPlaceDropout<kAlphaInPlace>::install("_ZN2at4_ops14alpha_dropout_4callERNS_6TensorEdb");
  live &= NewDropout<kFeature>::install("_ZN2at4_ops15feature_dropout4callERKNS_6TensorEdb");
  live &=
      InPlaceDropout<kFeatureInPlace>::install("_ZN2at4_ops16feature_dropout_4callERNS_6TensorEdb");
  live &=
      NewDropout<kFeatureAlpha>::install("_ZN2at4_ops21feature_alpha_dropout4callERKNS_6TensorEdb");
  live &= InPlaceDropout<kFeatureAlphaInPlace>::install(
      "_ZN2at4_ops22feature_alpha_dropout_4callERNS_6TensorEdb");
  return live;
}

}  // namespace ddpscope
