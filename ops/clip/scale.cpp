#include "ops/clip/scale.h"

#include <cstring>

namespace ddpscope::clip {

void scale(const Table& table, const Measure& measure, const Verdict& verdict) {
  const double factor = verdict.factor();
  if (factor == 1 && !(verdict.zeroes_bad && verdict.has_bad)) return;
  table.check_takes(factor);
  const auto is_zeroed = [&](std::size_t row) {
    return verdict.zeroes_bad && measure.rows()[row].is_bad();
  };
  const auto is_wanted = [&](std::size_t row) { return factor != 1 || is_zeroed(row); };
  table.write(is_wanted, [&](std::size_t row, void* data, std::int64_t values) {
    const Row& gradient = table.rows()[row];
    if (is_zeroed(row)) {
      const auto bytes = gradient.element_bytes() / (gradient.is_complex ? 2 : 1);
      std::memset(data, 0, static_cast<std::size_t>(values * bytes));
    } else {
      chunk_kernels().scale[static_cast<int>(gradient.kind)](data, values, factor);
    }
  });
}

}  // namespace ddpscope::clip
