#include "ops/clip/shards.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/hash.h>
#include <ddpscope/ops/communicator.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/clip/measure.h"

namespace ddpscope::clip {
namespace {

constexpr std::int64_t kWords = 5;  // norm, present, bad, number, arguments

at::Tensor gathered(Communicator& group, const at::Tensor& record) try {
  return group.all_gather(record);
} catch (c10::Error& error) {
  error.add_context(
      "clip_grad_norm_ could not add up the norms of its shards; every rank of the group has to "
      "call it, and one that throws before lets the others wait");
  throw;
}

// Numbers of other ranks that differ: rank by rank one of them is a call ahead.
void check_agreement(const double* rows, std::int64_t ranks) {
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    const double* const row = rows + rank * kWords;
    TORCH_CHECK(row[3] == rows[3], "clip_grad_norm_: rank ", rank, " of the group is at call ",
                row[3], " over its shards and rank 0 at call ", rows[3],
                "; one of them threw before the exchange, or did not call");
    TORCH_CHECK(row[4] == rows[4], "clip_grad_norm_: rank ", rank,
                " of the group called with another max_norm, or with other options, than rank 0");
  }
}

/// Of what is not 0 for p above 0 and not infinite below: a power of its quotients stays in range.
double unit_of(const std::vector<double>& norms, double p) {
  if (norms.empty()) return 1;
  const double unit = p > 0 ? std::ranges::max(norms) : std::ranges::min(norms);
  return unit > 0 && std::isfinite(unit) ? unit : 1;
}

/// Of the norms of the parts.
double norm_of(const std::vector<double>& norms, double p) {
  if (norms.empty()) return 0;
  if (std::ranges::any_of(norms, [](double norm) { return std::isnan(norm); })) return kNan;
  if (p == kInfinity) return std::ranges::max(norms);
  if (p == -kInfinity) return std::ranges::min(norms);
  const bool is_plain = p == 0 || p == 1;
  const double unit = is_plain ? 1 : unit_of(norms, p);
  double sum = 0;
  for (const double norm : norms) sum += is_plain ? norm : std::pow(norm / unit, p);
  return is_plain ? sum : unit * std::pow(sum, 1 / p);
}

at::Tensor norm_of(const at::Tensor& norms, const at::Tensor& are_present, double p) {
  const auto or_else = [&](const at::Tensor& values, double neutral) {
    return at::where(are_present, values, at::full_like(values, neutral));
  };
  if (p == kInfinity) return or_else(norms, 0).amax();
  if (p == -kInfinity) return or_else(norms, kInfinity).amin();
  if (p == 0 || p == 1) return or_else(norms, 0).sum();
  const at::Tensor extreme = p > 0 ? or_else(norms, 0).amax() : or_else(norms, kInfinity).amin();
  const at::Tensor is_unit = extreme.gt(0).logical_and(extreme.isfinite());
  const at::Tensor unit = at::where(is_unit, extreme, at::ones_like(extreme));
  return unit * or_else((norms / unit).pow(p), 0).sum().pow(1 / p);
}

}  // namespace

namespace {
/// What one rank can know of it without a wait.
float known_scale(const at::Tensor& inverse_scale) {
  const bool is_known = inverse_scale.defined() && inverse_scale.is_cpu() &&
                        inverse_scale.scalar_type() == at::kFloat && inverse_scale.numel() == 1;
  return is_known ? inverse_scale.item<float>() : 0;
}
}  // namespace

ShardCall begin_shards(double max_norm, const ClipOptions& options) {
  if (!options.shards) return {};
  const std::size_t hash = c10::get_hash(
      max_norm, options.norm_type, options.eps, static_cast<int>(options.on_non_finite),
      options.defer, options.inverse_scale.defined(), known_scale(options.inverse_scale));
  constexpr std::size_t kExact = (std::size_t{1} << 53) - 1;  // in a double
  return {.group = options.shards.get(),
          .number = options.shards->count_call("clip_grad_norm_"),
          .arguments = static_cast<std::int64_t>(hash & kExact),
          .p = options.norm_type};
}

ShardNorm over_shards(const ShardCall& call, const ShardNorm& own) {
  at::Tensor record = at::empty({kWords}, at::kDouble);
  const double words[kWords] = {own.norm, double(own.is_present), double(own.is_bad),
                                double(call.number), double(call.arguments)};
  std::ranges::copy(words, record.mutable_data_ptr<double>());
  const at::Tensor all = gathered(*call.group, record).contiguous();
  const auto* const rows = all.const_data_ptr<double>();
  check_agreement(rows, all.size(0));
  ShardNorm whole;
  std::vector<double> norms;
  for (std::int64_t rank = 0; rank < all.size(0); ++rank) {
    const double* const row = rows + rank * kWords;
    whole.is_bad |= row[2] != 0;
    if (row[1] != 0) norms.push_back(row[0]);
  }
  whole.is_present = !norms.empty();
  whole.norm = norm_of(norms, call.p);
  return whole;
}

ShardTensors over_shards(const ShardCall& call, const ShardTensors& own, bool is_present) {
  const auto word = [&own](double value) { return at::full_like(own.norm, value); };
  const at::Tensor all = gathered(
      *call.group,
      at::stack({own.norm, word(is_present), own.is_bad, word(static_cast<double>(call.number)),
                 word(static_cast<double>(call.arguments))}));
  const at::Tensor agreed = all.narrow(1, 3, 2);
  const at::Tensor agree = agreed.eq(agreed.narrow(0, 0, 1)).all();
  const at::Tensor are_present = all.select(1, 1) > 0;
  const at::Tensor none = at::zeros_like(own.norm);
  const at::Tensor norm =
      at::where(are_present.any(), norm_of(all.select(1, 0), are_present, call.p), none);
  return {.norm = at::where(agree, norm, word(kNan)),
          .is_bad = at::where(agree, all.select(1, 2).amax(), word(1))};
}

}  // namespace ddpscope::clip
