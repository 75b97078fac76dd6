#include "ops/batch_norm/layout.h"

namespace ddpscope::batch_norm {
namespace {

/// Whether values lie as those of a contiguous tensor whose channels are the last dimension; also
/// of sizes that torch.compile leaves open.
bool is_rows(const at::Tensor& tensor) {
  if (tensor.sym_numel() == 0) return true;
  c10::SymInt step = 1;
  const auto follows = [&](std::int64_t dimension) {
    const bool fits = tensor.sym_size(dimension) == 1 || tensor.sym_stride(dimension) == step;
    step *= tensor.sym_size(dimension);
    return fits;
  };
  bool fits = follows(1);
  for (std::int64_t i = tensor.dim() - 1; i >= 2; --i) fits = follows(i) && fits;
  return follows(0) && fits;
}
bool is_planes(const at::Tensor& tensor) { return tensor.is_contiguous(); }

// Planes of one value are rows: each row then is one sample.
Layout layout_of(const at::Tensor& tensor, std::int64_t plane) {
  if (plane == 1 && is_rows(tensor)) return Layout::kRows;
  return is_planes(tensor) ? Layout::kPlanes : Layout::kRows;
}

std::int64_t plane_of(const at::Tensor& tensor) {
  std::int64_t plane = 1;
  for (std::int64_t i = 2; i < tensor.dim(); ++i) plane *= tensor.size(i);
  return plane;
}

}  // namespace

ScalarKind scalar_kind(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return ScalarKind::kHalf;
    case at::kBFloat16:
      return ScalarKind::kBFloat16;
    case at::kFloat:
      return ScalarKind::kFloat;
    default:
      return ScalarKind::kDouble;
  }
}

at::Tensor in_memory(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return tensor._is_zerotensor() ? tensor.clone() : tensor.resolve_neg();
}

at::Tensor dense(const at::Tensor& numbers) {
  return numbers.defined() ? in_memory(numbers).contiguous() : numbers;
}

at::Tensor without_gaps(const at::Tensor& input) {
  if (is_planes(input) || is_rows(input)) return input;
  return input.contiguous(input.suggest_memory_format());
}

NormShape shape_of(const at::Tensor& input) {
  const std::int64_t plane = plane_of(input);
  return {.kind = scalar_kind(input.scalar_type()),
          .layout = layout_of(input, plane),
          .batch = input.size(0),
          .channels = input.size(1),
          .plane = plane};
}

at::Tensor in_layout(const at::Tensor& gradient, Layout layout) {
  if (layout == Layout::kPlanes) return gradient.contiguous();
  if (is_rows(gradient)) return gradient;
  return gradient.movedim(1, -1).contiguous().movedim(-1, 1);
}

at::Tensor over_channels(const at::Tensor& numbers, const at::Tensor& input) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[1] = numbers.numel();
  return numbers.view(sizes);
}

void bump(const at::Tensor& tensor) {
  if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace ddpscope::batch_norm
