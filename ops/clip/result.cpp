#include "ops/clip/result.h"

#include <ATen/ops/empty.h>

#include <cmath>
#include <cstring>
#include <sstream>

namespace ddpscope {
namespace clip {
namespace {

template <class T>
at::Tensor vector_of(const std::vector<T>& values, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, type);
  if (values.empty()) return tensor;
  std::memcpy(tensor.mutable_data_ptr(), values.data(), values.size() * sizeof(T));
  return tensor;
}

template <class T>
at::Tensor scalar_of(T value, at::ScalarType type) {
  at::Tensor tensor = at::empty({}, type);
  std::memcpy(tensor.mutable_data_ptr(), &value, sizeof value);
  return tensor;
}

at::Tensor counts_of(const Measure& measure, std::int64_t Sums::*count) {
  std::vector<std::int64_t> counts;
  counts.reserve(measure.rows().size());
  for (const Sums& row : measure.rows()) counts.push_back(row.*count);
  return vector_of(counts, at::kLong);
}

}  // namespace

at::Tensor nan_counts_of(const Measure& measure) { return counts_of(measure, &Sums::nan_count); }
at::Tensor inf_counts_of(const Measure& measure) { return counts_of(measure, &Sums::inf_count); }

ClipResult make_result(const Measure& measure, const Verdict& verdict, const ClipOptions& options) {
  // A norm of order 0 is a number of gradients, which no scale changes.
  const double scale = options.norm_type == 0 ? 1 : std::fabs(verdict.inverse_scale);
  std::vector<double> norms, max_abs;
  for (std::size_t i = 0; i < measure.rows().size(); ++i) {
    norms.push_back(measure.norm(i) * scale);
    max_abs.push_back(measure.rows()[i].max_abs * std::fabs(verdict.inverse_scale));
  }
  ClipResult result;
  result.total_norm = scalar_of(verdict.total, at::kDouble);
  result.coefficient = scalar_of(verdict.coefficient, at::kDouble);
  result.tensor_norms = vector_of(norms, at::kDouble);
  if (!options.module_of.empty()) {
    auto modules = measure.module_norms(options.module_of, verdict.zeroes_bad);
    for (double& norm : modules) norm *= scale;
    result.module_norms = vector_of(modules, at::kDouble);
  }
  result.max_abs = vector_of(max_abs, at::kDouble);
  result.nan_counts = nan_counts_of(measure);
  result.inf_counts = inf_counts_of(measure);
  result.first_bad = scalar_of(culprit_of(measure, verdict).row, at::kLong);
  const bool is_found = verdict.has_bad || (options.on_non_finite == NonFinite::kSkip &&
                                            !std::isfinite(verdict.total));
  result.found_inf = scalar_of(is_found ? 1.0F : 0.0F, at::kFloat);
  result.grad_scale = scalar_of(static_cast<float>(1 / verdict.factor()), at::kFloat);
  return result;
}

std::string told(const Culprit& culprit) {
  std::ostringstream text;
  text << "the total norm is " << culprit.total << "; ";
  if (culprit.row == -2) {
    text << "every element of this rank is finite, and another rank has a NaN or an Inf";
  } else if (culprit.row < 0) {
    text << "every element is finite, and their sum is not";
  } else {
    text << "the first gradient that is not finite is that of tensors[" << culprit.row << "], with "
         << culprit.nan_count << " NaN and " << culprit.inf_count << " Inf";
  }
  return text.str();
}

Culprit culprit_of(const Measure& measure, const Verdict& verdict) {
  const std::int64_t row = measure.first_bad();
  if (row < 0) return {.total = verdict.total, .row = verdict.has_bad ? -2 : -1};
  const Sums& sums = measure.rows()[static_cast<std::size_t>(row)];
  return {verdict.total, row, sums.nan_count, sums.inf_count};
}

}  // namespace clip

inline namespace api0 {

double ClipResult::total_norm_value() const { return total_norm.item<double>(); }

void ClipResult::throw_if_non_finite() const {
  const double total = total_norm_value();
  if (std::isfinite(total) && found_inf.item<float>() == 0) return;
  clip::Culprit culprit = {.total = total, .row = first_bad.item<std::int64_t>()};
  if (culprit.row >= 0) {
    culprit.nan_count = nan_counts.select(0, culprit.row).item<std::int64_t>();
    culprit.inf_count = inf_counts.select(0, culprit.row).item<std::int64_t>();
  }
  TORCH_CHECK(false, "clip_grad_norm_: ", clip::told(culprit));
}

}  // namespace api0
}  // namespace ddpscope
