#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace ddpscope {

/// The values that an operator accepts.
struct Accepted {
  double minimum = 0;
  std::optional<double> maximum = {};
  std::optional<std::int64_t> ignored = {};  ///< beside them
};

/// One pass over the elements of a tensor. Where none offends, repeated ones are judged once.
struct RangeScan {
  std::int64_t judged_count = 0;
  std::int64_t offenders_count = 0;
  std::int64_t nan_count = 0;
  std::int64_t first_index = 0;
  double minimum = 0;
  double maximum = 0;
};

/// Whether its sizes are numbers that can be asked for.
bool has_shape(const at::Tensor& tensor);
/// How many elements an operator chooses from along a dimension; nothing if there is no such one.
std::optional<std::int64_t> choices(const at::Tensor& tensor, std::int64_t dimension);

/// For strided tensors. Nothing where the values do not lie on the host, and for other types.
std::optional<RangeScan> scan_range(const at::Tensor& tensor, const Accepted& accepted);

}  // namespace ddpscope
