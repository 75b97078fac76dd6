#include "ops/batch_norm/exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <bit>

#include "ops/batch_norm/facts.h"

namespace ddpscope::batch_norm {
namespace {

at::Tensor make_record(std::int64_t length) {
  return at::empty({length}, at::TensorOptions().dtype(at::kDouble));
}

double* data_of(at::Tensor& record) { return record.mutable_data_ptr<double>(); }

[[noreturn]] void fail_mixed_up(const Call& call, Phase phase) {
  TORCH_CHECK(
      false, "sync_batch_norm: this rank is at ", call.place(phase), ", but another rank of ",
      call.group->name(),
      " is at another layer, call or phase. Every rank must run the same layers in the same "
      "order, forward and backward, also with an empty batch");
  __builtin_unreachable();
}

// A sum or an all-gather over the group; what fails is told with the layer.
template <class Operation>
auto over_group(const Call& call, Phase phase, const Operation& operation) {
  const ObservedExchange observed(call, phase);
  try {
    return operation();
  } catch (c10::Error& error) {
    error.add_context("in sync_batch_norm, " + call.place(phase));
    throw;
  }
}

/// Sums the record over the group; its last two elements are left for id and id squared, which tell
/// whether all ids are equal: only then is W * sum(id^2) = sum(id)^2.
void sum_over_group(at::Tensor& record, const Call& call, Phase phase) {
  const int size = call.group->size();
  double* const id = data_of(record) + record.numel() - 2;
  id[0] = id_of(call, phase, size);
  id[1] = id[0] * id[0];
  over_group(call, phase, [&] { call.group->all_reduce_sum(record); });
  const double* const sums = data_of(record) + record.numel() - 2;
  if (size * sums[1] != sums[0] * sums[0]) fail_mixed_up(call, phase);
}

/// All records, whose last element is left for the id.
at::Tensor gather_over_group(at::Tensor record, const Call& call, Phase phase) {
  const double id = id_of(call, phase, call.group->size());
  const std::int64_t last = record.numel() - 1;
  data_of(record)[last] = id;
  const at::Tensor all =
      over_group(call, phase, [&] { return call.group->all_gather(record); }).contiguous();
  for (std::int64_t rank = 0; rank < all.size(0); ++rank) {
    if (all.const_data_ptr<double>()[rank * record.numel() + last] != id) {
      fail_mixed_up(call, phase);
    }
  }
  return all;
}

void merge(Moments& total, double count, const double* mean, const double* m2) {
  if (count == 0) return;
  const double weight = count / (total.count + count);
  for (std::size_t c = 0; c < total.mean.size(); ++c) {
    const double shift = mean[c] - total.mean[c];
    total.mean[c] += shift * weight;
    total.m2[c] += m2[c] + shift * shift * (total.count * weight);
  }
  total.count += count;
}

Moments gather_moments(const Moments& own, const Call& call) {
  const auto channels = static_cast<std::int64_t>(own.mean.size());
  at::Tensor record = make_record(2 * channels + 2);
  double* const data = data_of(record);
  data[0] = own.count;
  std::copy(own.mean.begin(), own.mean.end(), data + 1);
  std::copy(own.m2.begin(), own.m2.end(), data + 1 + channels);
  const at::Tensor all = gather_over_group(record, call, Phase::kForward);
  Moments total = {0, std::vector<double>(channels), std::vector<double>(channels)};
  for (std::int64_t rank = 0; rank < all.size(0); ++rank) {
    const double* const row = all.const_data_ptr<double>() + rank * all.size(1);
    merge(total, row[0], row + 1, row + 1 + channels);
  }
  return total;
}

Moments sum_moments(const Moments& own, const Call& call) {
  const auto channels = static_cast<std::int64_t>(own.mean.size());
  at::Tensor record = make_record(2 * channels + 3);
  double* data = data_of(record);
  data[0] = own.count;
  for (std::int64_t c = 0; c < channels; ++c) {
    data[1 + c] = own.count * own.mean[c];
    data[1 + channels + c] = own.m2[c] + own.count * own.mean[c] * own.mean[c];
  }
  sum_over_group(record, call, Phase::kForward);
  data = data_of(record);
  Moments total = {data[0], std::vector<double>(channels), std::vector<double>(channels)};
  if (total.count == 0) return total;
  for (std::int64_t c = 0; c < channels; ++c) {
    total.mean[c] = data[1 + c] / total.count;
    const double m2 = data[1 + channels + c] - data[1 + c] * total.mean[c];
    total.m2[c] = m2 < 0 ? 0 : m2;  // by rounding alone; NaN stays
  }
  return total;
}

}  // namespace

std::string Call::place(Phase phase) const {
  constexpr const char* kPhases[] = {"forward", "backward", "second backward"};
  return (layer.empty() ? "a layer without a name" : "layer " + layer) + ", call " +
         std::to_string(number) + ", " + kPhases[static_cast<int>(phase)];
}

at::Tensor Call::inverse() const {
  if (device_inverse_count.defined()) return device_inverse_count;
  return at::scalar_tensor(inverse_count, at::TensorOptions().dtype(at::kDouble));
}

double id_of(const Call& call, Phase phase, int size) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001B3; };
  for (const char letter : call.layer) add(static_cast<unsigned char>(letter));
  add(static_cast<std::uint64_t>(call.number) + 256);
  add(static_cast<std::uint64_t>(phase));
  hash ^= hash >> 32;
  hash ^= hash >> 16;
  const int rank_bits = std::bit_width(static_cast<unsigned>(size) - 1);
  const int bits = std::min(16, (52 - 2 * rank_bits) / 2);
  return static_cast<double>(hash & ((1U << bits) - 1));
}

Moments exchange_moments(const Moments& own, const Call& call) {
  if (!call.group) return own;
  return call.gathers ? gather_moments(own, call) : sum_moments(own, call);
}

at::Tensor exchange_record(at::Tensor record, const Call& call, Phase phase) {
  if (!call.group) return record;
  if (call.gathers) {
    return over_group(call, phase, [&] { return call.group->all_gather(record); }).contiguous();
  }
  over_group(call, phase, [&] { call.group->all_reduce_sum(record); });
  return record;
}

at::Tensor exchange_sums(const at::Tensor& own, const Call& call, Phase phase) {
  if (!call.group) return own;
  if (!own.is_cpu()) {  // without ids: to compare them here would wait
    const at::Tensor all = exchange_record(own.reshape(-1).clone(), call, phase);
    return (call.gathers ? all.sum(0) : all).view(own.sizes());
  }
  const std::int64_t length = own.numel();
  at::Tensor record = make_record(length + (call.gathers ? 1 : 2));
  record.narrow(0, 0, length).copy_(own.view(-1));
  if (!call.gathers) {
    sum_over_group(record, call, phase);
    return record.narrow(0, 0, length).view(own.sizes());
  }
  const at::Tensor all = gather_over_group(record, call, phase);
  at::Tensor sums = all.select(0, 0).clone();
  for (std::int64_t rank = 1; rank < all.size(0); ++rank) sums.add_(all.select(0, rank));
  return sums.narrow(0, 0, length).view(own.sizes());
}

}  // namespace ddpscope::batch_norm
