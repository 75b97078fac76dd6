#include "ops/batch_norm/second_backward.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>

#include "ops/batch_norm/layout.h"

namespace ddpscope::batch_norm {
namespace {

// The names of the sums are those of the derivation: docs/operators.md.
struct Terms {
  at::Tensor u, g, v;     // x - mean, dy, arriving for dx
  at::Tensor a, b, r, w;  // arriving for weight and bias, 1 / deviation, weight
  at::Tensor s1, s2;      // of all ranks, as the next five
  at::Tensor v1, v2, pvg, q1, q2;
  at::Tensor n;  // 1 / N

  at::Tensor wide(const at::Tensor& numbers) const { return over_channels(numbers, u); }
};

at::Tensor sum_of(const at::Tensor& over_batch) {
  return over_batch.movedim(1, 0).reshape({over_batch.size(1), -1}).sum(1);
}

at::Tensor of_gradient(const Terms& t) {
  const at::Tensor inner = t.v - t.wide(t.v1 * t.n) - t.u * t.wide(t.r * t.r * t.v2 * t.n);
  return t.wide(t.w * t.r) * inner + t.wide(t.a * t.r) * t.u + t.wide(t.b);
}

at::Tensor of_input(const Terms& t) {
  const at::Tensor r2 = t.r * t.r;
  const at::Tensor along = 3 * r2 * t.s2 * t.v2 * t.n - t.pvg + t.s1 * t.v1 * t.n;
  const at::Tensor inner = t.u * t.wide(along) - t.wide(t.v2) * (t.g - t.wide(t.s1 * t.n)) -
                           t.wide(t.s2) * (t.v - t.wide(t.v1 * t.n));
  const at::Tensor of_weight =
      t.wide(t.a) * t.g - t.wide(t.q1 * t.n) - t.u * t.wide(r2 * t.q2 * t.n);
  return t.wide(t.w * r2 * t.r * t.n) * inner + t.wide(t.r) * of_weight;
}

}  // namespace

SecondGradients second_backward_of(const FirstBackward& first, const Arriving& arriving,
                                   const Call& call) {
  const auto doubles = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  const at::Tensor x = doubles(first.tensors.x);
  const at::Tensor own_s1 = first.sums[0], own_s2 = first.sums[1];
  Terms t = {.u = x - over_channels(first.tensors.statistics[0], x),
             .g = doubles(first.dy),
             .v = doubles(arriving.input),
             .a = doubles(arriving.weight),
             .b = doubles(arriving.bias),
             .r = first.tensors.statistics[1],
             .s1 = first.sums[2],
             .s2 = first.sums[3],
             .n = call.inverse()};
  t.w = first.tensors.weight.defined() ? doubles(first.tensors.weight) : at::ones_like(t.r);
  const at::Tensor own =
      at::stack({sum_of(t.v), sum_of(t.v * t.u), sum_of(t.v * t.g), t.a * own_s1, t.a * own_s2});
  const at::Tensor total = exchange_sums(own, call, Phase::kSecondBackward);
  t.v1 = total[0];
  t.v2 = total[1];
  t.pvg = total[2];
  t.q1 = total[3];
  t.q2 = total[4];
  const at::Tensor of_weight =
      t.r * (own[2] - own[0] * t.s1 * t.n - t.r * t.r * own[1] * t.s2 * t.n);
  return {.dy = of_gradient(t), .x = of_input(t), .weight = of_weight};
}

}  // namespace ddpscope::batch_norm
