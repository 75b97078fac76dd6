#include "ops/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace ddpscope::ops {
namespace {
constexpr std::int64_t kElementsPerTask = 1 << 16;
}

bool is_worth_threads(std::int64_t elements) {
  return elements >= 2 * kElementsPerTask && at::get_num_threads() > 1 && !at::in_parallel_region();
}

// at::parallel_for is a template: outside of LibTorch it has threads only in programs that are
// compiled with OpenMP, whose runtime might then be another one than LibTorch's. The iterator runs
// on LibTorch's own.
void for_ranges(std::int64_t count, std::int64_t elements,
                c10::function_ref<void(std::int64_t, std::int64_t)> work) {
  if (count < 2 || !is_worth_threads(elements)) return work(0, count);
  at::Tensor places = at::empty({count}, at::kChar);  // one per piece of work, never written
  const auto* const first = static_cast<const char*>(places.const_data_ptr());
  auto iterator = at::TensorIterator::nullary_op(places);
  // In one row: what is flat has an outer size of 1.
  const auto on_row = [&](char** data, const std::int64_t*, std::int64_t size, std::int64_t) {
    work(data[0] - first, data[0] - first + size);
  };
  iterator.for_each(on_row, std::max<std::int64_t>(1, count * kElementsPerTask / elements));
}

}  // namespace ddpscope::ops
