#include "hooks/range_scan.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <limits>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxDimensions = 16;

bool is_on_host(const c10::TensorImpl& impl) {
  return impl.is_cpu() && impl.has_storage() && impl.storage_initialized() &&
         !impl.key_set().has(c10::DispatchKey::Negative) && impl.sizes().size() <= kMaxDimensions;
}

/// `Number` holds every value of `Element`: the limits are compared without rounding.
template <class Element, class Number>
class Scan {
 public:
  explicit Scan(const Accepted& accepted)
      : lowest_(static_cast<Number>(accepted.minimum)),
        highest_(accepted.maximum.has_value() ? static_cast<Number>(*accepted.maximum)
                                              : std::numeric_limits<Number>::max()),
        ignored_(accepted.ignored.has_value()),
        ignored_value_(static_cast<Number>(accepted.ignored.value_or(0))) {}

  void add(Element element) {
    const auto value = static_cast<Number>(element);
    const std::int64_t index = index_++;
    if (ignored_ && value == ignored_value_) return;
    ++result_.judged_count;
    if (value < minimum_) minimum_ = value;
    if (value > maximum_) maximum_ = value;
    if (value >= lowest_ && value <= highest_) return;  // false for NaN
    if (value != value) ++result_.nan_count;
    if (result_.offenders_count++ == 0) result_.first_index = index;
  }

  RangeScan result() {
    if (minimum_ <= maximum_) {
      result_.minimum = static_cast<double>(minimum_);
      result_.maximum = static_cast<double>(maximum_);
    }
    return result_;
  }

 private:
  Number lowest_;
  Number highest_;
  bool ignored_;
  Number ignored_value_;
  Number minimum_ = std::numeric_limits<Number>::max();
  Number maximum_ = std::numeric_limits<Number>::lowest();
  std::int64_t index_ = 0;
  RangeScan result_;
};

using Shape = c10::SmallVector<std::int64_t, kMaxDimensions>;

/// The shape without repetitions: along an expanded dimension one element stands for all.
Shape distinct_shape(const c10::TensorImpl& impl) {
  Shape shape(impl.sizes().begin(), impl.sizes().end());
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (impl.strides()[k] == 0) shape[k] = 1;
  }
  return shape;
}

/// Visits the elements along rows, whatever their strides.
template <class Element, class Visit>
void for_each_element(const c10::TensorImpl& impl, c10::IntArrayRef sizes, Visit&& visit) {
  const auto* data = static_cast<const Element*>(impl.data());
  std::int64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= size;
  if (impl.is_contiguous()) {
    for (std::int64_t i = 0; i < elements; ++i) visit(data[i]);
    return;
  }
  const auto strides = impl.strides();
  std::array<std::int64_t, kMaxDimensions> place{};
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    visit(data[offset]);
    for (std::size_t k = sizes.size(); k-- > 0;) {
      offset += strides[k];
      if (++place[k] < sizes[k]) break;
      offset -= strides[k] * sizes[k];
      place[k] = 0;
    }
  }
}

template <class Element, class Number>
RangeScan scan_as(const c10::TensorImpl& impl, const Accepted& accepted) {
  const auto scan_of = [&](c10::IntArrayRef sizes) {
    Scan<Element, Number> scan(accepted);
    for_each_element<Element>(impl, sizes, [&](Element element) { scan.add(element); });
    return scan.result();
  };
  // An expanded index, as scatter takes, is small; in full it is read where something is wrong.
  const Shape distinct = distinct_shape(impl);
  const RangeScan once = scan_of(distinct);
  return once.offenders_count == 0 || impl.sizes().equals(distinct) ? once : scan_of(impl.sizes());
}
}  // namespace

bool has_shape(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_nested() && tensor.layout() == c10::kStrided &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

std::optional<std::int64_t> choices(const at::Tensor& tensor, std::int64_t dimension) {
  if (!has_shape(tensor)) return std::nullopt;
  const std::int64_t dimensions = tensor.dim();
  if (dimension < 0) dimension += dimensions;
  if (dimensions == 0) return 1;
  if (dimension < 0 || dimension >= dimensions) return std::nullopt;
  return tensor.sizes()[static_cast<std::size_t>(dimension)];
}

std::optional<RangeScan> scan_range(const at::Tensor& tensor, const Accepted& accepted) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!is_on_host(impl) || impl.numel() == 0) return std::nullopt;
  switch (c10::typeMetaToScalarType(impl.dtype())) {
    case c10::kLong:
      return scan_as<std::int64_t, std::int64_t>(impl, accepted);
    case c10::kInt:
      return scan_as<std::int32_t, std::int64_t>(impl, accepted);
    case c10::kByte:
      return scan_as<std::uint8_t, std::int64_t>(impl, accepted);
    case c10::kDouble:
      return scan_as<double, double>(impl, accepted);
    case c10::kFloat:
      return scan_as<float, double>(impl, accepted);
    case c10::kHalf:
      return scan_as<c10::Half, float>(impl, accepted);
    case c10::kBFloat16:
      return scan_as<c10::BFloat16, float>(impl, accepted);
    default:
      return std::nullopt;
  }
}

}  // namespace ddpscope
