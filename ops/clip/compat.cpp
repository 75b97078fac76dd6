#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/full.h>
#include <ddpscope/ops/clip_grad.h>

#include <cmath>
#include <optional>

#include "ops/clip/devices.h"
#include "ops/clip/facts.h"
#include "ops/clip/measure.h"
#include "ops/clip/result.h"
#include "ops/clip/scale.h"
#include "ops/clip/table.h"

namespace ddpscope {
namespace clip {
namespace {

/// The dtype in which torch has the norm of all gradients together.
at::ScalarType dtype_of_total(const std::vector<Table>& tables, double norm_type) {
  if (norm_type == 0) return c10::get_default_dtype_as_scalartype();
  std::optional<at::ScalarType> type;
  for (const Table& table : tables) {
    for (const Row& row : table.rows()) {
      if (row.gradient == nullptr) continue;
      const auto of_norm = c10::toRealValueType(row.gradient->scalar_type());
      type = type ? c10::promoteTypes(*type, of_norm) : of_norm;
    }
  }
  return *type;
}

std::int64_t defined_count(const std::vector<Table>& tables) {
  std::int64_t count = 0;
  for (const Table& table : tables) count += table.defined_count();
  return count;
}

/// What both ways of clipping have: a total, and a factor that is applied.
struct HostClip {
  const Table& table;
  double order;
  Measure measure = Measure(table, order);

  void scale_by(double factor) const {
    Verdict verdict;
    verdict.coefficient = factor;
    scale(table, measure, verdict);
  }
};

void tell(const HostClip& clip, const ClipFacts& facts) {
  tell_observer(clip.table, clip.measure, facts);
}
double total_of(const HostClip& clip) { return clip.measure.total(/*leaves_out_bad=*/false); }

void tell(const DevicesMeasure&, const ClipFacts&) {}
double total_of(const DevicesMeasure& clip) { return clip.result().total(); }

template <class Clip>
double clip_like_torch(const std::vector<Table>& tables, const Clip& clip, double max_norm,
                       double norm_type, bool error_if_nonfinite) {
  const double exact = norm_type == 0 ? static_cast<double>(defined_count(tables)) : total_of(clip);
  const at::Tensor total = at::full({}, exact, dtype_of_total(tables, norm_type));
  const double norm = total.item<double>();
  const double factor = at::clamp(max_norm / (total + 1e-6), std::nullopt, 1.0).item<double>();
  const bool is_refused = error_if_nonfinite && !std::isfinite(norm);
  tell(clip, {.max_norm = max_norm,
              .total_norm = norm,
              .coefficient = factor,
              .is_limited = !std::isinf(max_norm),
              .is_refused = is_refused});
  TORCH_CHECK(!is_refused, "The total norm of order ", norm_type,
              " for gradients from `parameters` is non-finite, so it cannot be clipped. To disable "
              "this error and scale the gradients with the non-finite norm anyway, set "
              "`error_if_nonfinite=false`");
  clip.scale_by(factor);
  return norm;
}

}  // namespace
}  // namespace clip

inline namespace api0 {
namespace compat {

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  const at::NoGradGuard no_grad;
  const auto tables =
      clip::Table::of_devices(parameters, ClipInput::kParameters, clip::Change::kScale);
  if (clip::defined_count(tables) == 0) return 0;
  const clip::Table& table = tables.front();
  if (tables.size() == 1 && table.device().is_cpu()) {
    return clip::clip_like_torch(tables, clip::HostClip{table, norm_type}, max_norm, norm_type,
                                 error_if_nonfinite);
  }
  const auto portions = clip::portions_of(tables);
  const clip::DevicesMeasure measure(portions, {}, {.p = norm_type, .max_norm = HUGE_VAL});
  return clip::clip_like_torch(tables, measure, max_norm, norm_type, error_if_nonfinite);
}

double clip_grad_norm_(std::initializer_list<at::Tensor> parameters, double max_norm,
                       double norm_type, bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector<at::Tensor>(parameters), max_norm, norm_type,
                         error_if_nonfinite);
}

double clip_grad_norm_(at::Tensor parameter, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector<at::Tensor>{std::move(parameter)}, max_norm, norm_type,
                         error_if_nonfinite);
}

void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  if (clip_value >= 0) {
    api0::clip_grad_value_(parameters, clip_value);
    return;
  }
  for (const at::Tensor& parameter : parameters) {  // what odd limits do is torch's matter
    if (parameter.grad().defined()) parameter.grad().data().clamp_(-clip_value, clip_value);
  }
}

void clip_grad_value_(std::initializer_list<at::Tensor> parameters, double clip_value) {
  clip_grad_value_(std::vector<at::Tensor>(parameters), clip_value);
}

void clip_grad_value_(at::Tensor parameter, double clip_value) {
  clip_grad_value_(std::vector<at::Tensor>{std::move(parameter)}, clip_value);
}

}  // namespace compat
}  // namespace api0
}  // namespace ddpscope
