#include "ops/clip/shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <ddpscope/ops/communicator.h>

#include <cmath>
#include <limits>

namespace ddpscope::clip {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_sum(double p) { return p != kInfinity && p != -kInfinity; }

/// What is added up over the ranks.
double power_of(double norm, double p) {
  return p == 0 || p == 1 ? norm : p == 2 ? norm * norm : std::pow(norm, p);
}

double root_of(double sum, double p) {
  return p == 0 || p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

double extreme_of(double a, double b, double p) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return p > 0 ? std::fmax(a, b) : std::fmin(a, b);
}

}  // namespace

ShardNorm over_shards(Communicator& group, double p, const ShardNorm& own) {
  at::Tensor record = at::empty({3}, at::kDouble);
  auto* const words = record.mutable_data_ptr<double>();
  words[0] = own.norm;
  words[1] = own.is_present;
  words[2] = own.is_bad;
  const at::Tensor all = group.all_gather(record).contiguous();
  const auto* row = all.const_data_ptr<double>();
  ShardNorm whole;
  double sum = 0;
  for (std::int64_t rank = 0; rank < all.size(0); ++rank, row += 3) {
    whole.is_bad |= row[2] != 0;
    if (row[1] == 0) continue;
    sum = is_sum(p)          ? sum + power_of(row[0], p)
          : whole.is_present ? extreme_of(sum, row[0], p)
                             : row[0];
    whole.is_present = true;
  }
  whole.norm = whole.is_present && is_sum(p) ? root_of(sum, p) : sum;
  return whole;
}

ShardTensors over_shards(Communicator& group, double p, const ShardTensors& own, bool is_present) {
  const at::Tensor present = at::full_like(own.norm, is_present ? 1 : 0);
  const at::Tensor all = group.all_gather(at::stack({own.norm, present, own.is_bad}));
  const at::Tensor norms = all.select(1, 0);
  const at::Tensor are_present = all.select(1, 1) > 0;
  const auto or_else = [&](const at::Tensor& values, double neutral) {
    return at::where(are_present, values, at::full_like(values, neutral));
  };
  ShardTensors whole{.norm = {}, .is_bad = all.select(1, 2).amax()};
  if (p == kInfinity) {
    whole.norm = or_else(norms, 0).amax();
  } else if (p == -kInfinity) {
    whole.norm = or_else(norms, kInfinity).amin();
  } else if (p == 0) {
    whole.norm = or_else(norms, 0).sum();
  } else {
    whole.norm = or_else(norms.pow(p), 0).sum().pow(1 / p);
  }
  whole.norm = at::where(are_present.any(), whole.norm, at::zeros_like(whole.norm));
  return whole;
}

}  // namespace ddpscope::clip
