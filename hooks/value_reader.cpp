#include "hooks/value_reader.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hooks/gradient_table.h"
#include "hooks/range_scan.h"
#include "hooks/tensor_registry.h"
#include "values/extremes.h"

namespace ddpscope {
namespace {

struct Layout {
  ScalarKind kind;
  int parts;  // of a complex number
};

std::optional<Layout> layout_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return Layout{ScalarKind::kHalf, 1};
    case at::kBFloat16:
      return Layout{ScalarKind::kBFloat16, 1};
    case at::kFloat:
      return Layout{ScalarKind::kFloat, 1};
    case at::kDouble:
      return Layout{ScalarKind::kDouble, 1};
    case at::kComplexFloat:
      return Layout{ScalarKind::kFloat, 2};
    case at::kComplexDouble:
      return Layout{ScalarKind::kDouble, 2};
    default:
      return std::nullopt;
  }
}

template <class T>
double element_at(const void* data, std::int64_t index) {
  T element;
  std::memcpy(
      static_cast<void*>(&element),
      static_cast<const unsigned char*>(data) + index * static_cast<std::int64_t>(sizeof(T)),
      sizeof element);
  return static_cast<double>(element);
}

using ElementAt = double (*)(const void*, std::int64_t);

ElementAt reader_of(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kHalf:
      return element_at<c10::Half>;
    case ScalarKind::kBFloat16:
      return element_at<c10::BFloat16>;
    case ScalarKind::kFloat:
      return element_at<float>;
    case ScalarKind::kDouble:
      break;
  }
  return element_at<double>;
}
}  // namespace

std::optional<TensorData> readable_data(const at::Tensor& tensor) {
  if (!tensor.defined() || !is_readable(tensor)) return std::nullopt;
  return dense_data(tensor);
}

std::optional<TensorData> dense_data(const at::Tensor& tensor) {
  if (!tensor.defined() || !is_dense(tensor)) return std::nullopt;
  const auto layout = layout_of(tensor.scalar_type());
  if (!layout.has_value()) return std::nullopt;
  return TensorData{.data = values_of(*tensor.unsafeGetTensorImpl()),
                    .elements = tensor.numel() * layout->parts,
                    .kind = layout->kind};
}

GradientSketch sketch_in(const TensorValues& values) {
  const bool is_finite = values.nan_count == 0 && values.inf_count == 0;
  GradientSketch sketch{.squares = is_finite ? values.sum_of_squares : kNoSketch.squares};
  std::ranges::copy(values.sketch, sketch.sums.begin());
  return sketch;
}

ValueRange range_of(const at::Tensor& tensor) {
  const auto data = readable_data(tensor);
  if (!data.has_value()) return {};
  const Extremes extremes = measure_extremes(*data);
  return {.elements = data->elements,
          .nan_count = extremes.nan_count,
          .inf_count = extremes.inf_count,
          .absmax = extremes.absmax};
}

void add_to(ValueRange& sum, const ValueRange& part) {
  sum.elements += part.elements;
  sum.nan_count += part.nan_count;
  sum.inf_count += part.inf_count;
  sum.absmax = std::max(sum.absmax, part.absmax);
}

void for_each_element(const at::Tensor& tensor, const std::function<void(double)>& visit) {
  const auto data = readable_data(tensor);
  if (!data.has_value() || tensor.is_complex()) return;
  const ElementAt element = reader_of(data->kind);
  for (std::int64_t i = 0; i < data->elements; ++i) visit(element(data->data, i));
}

Numbers numbers_in(const at::Tensor& tensor) {
  Numbers numbers{.range = range_of(tensor)};
  if (numbers.range.elements > 0) {
    for_each_element(tensor, [&numbers](double element) {
      if (std::isnan(element)) return;
      numbers.min = std::min(numbers.min.value_or(element), element);
    });
    return numbers;
  }
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) return numbers;
  const auto scan = scan_range(tensor, {.minimum = -HUGE_VAL, .maximum = HUGE_VAL});
  if (!scan.has_value()) return numbers;
  numbers.range = {.elements = scan->judged_count,
                   .nan_count = scan->nan_count,
                   .inf_count = std::isinf(scan->minimum) + std::isinf(scan->maximum),
                   .absmax = std::max(std::abs(scan->minimum), std::abs(scan->maximum))};
  if (scan->nan_count < scan->judged_count) numbers.min = scan->minimum;
  return numbers;
}

std::optional<double> number_in(const at::Tensor& tensor) {
  const auto data = readable_data(tensor);
  if (!data.has_value() || data->elements != 1) return std::nullopt;
  return reader_of(data->kind)(data->data, 0);
}

}  // namespace ddpscope
