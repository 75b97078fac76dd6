#include "ops/batch_norm/exchange.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <bit>

#include "ops/batch_norm/facts.h"

namespace ddpscope::batch_norm {
namespace {

// What the host exchanges first has this length, whatever the layer: backends refuse ranks that
// send different lengths, and Gloo ends their processes. Up to 1024 channels nothing follows. 16
// KiB cost Gloo no more than the 128 bytes of a small layer.
constexpr std::int64_t kFirstItems = 2 * 1024 + 3;

at::Tensor make_record(std::int64_t length) {
  return at::empty({length}, at::TensorOptions().dtype(at::kDouble));
}

double* data_of(at::Tensor& record) { return record.mutable_data_ptr<double>(); }

[[noreturn]] void fail_mixed_up(const Call& call, Phase phase) {
  TORCH_CHECK(
      false, "sync_batch_norm: this rank is at ", call.place(phase), ", with ", call.channels,
      call.channels == 1 ? " channel" : " channels", " exchanged as ",
      call.gathers ? "kGather" : "kSum", ", but another rank of ", call.group->name(),
      " is at another layer, call or phase, or at a layer of another form. Every rank must run the "
      "same layers in the same order, forward and backward, also with an empty batch");
  __builtin_unreachable();
}

/// Whether all ranks sent this id. A group that sums nothing would pass where ids are compared with
/// each other alone.
bool is_id_of_all(double own, const double* sums, int size) {
  return size * sums[1] == sums[0] * sums[0] && sums[0] == size * own;
}

void check_is_sum(const Call& call, Phase phase, double own, double sum) {
  TORCH_CHECK(own == 0 || sum != 0, "sync_batch_norm: the sum over ", call.group->name(),
              " is zero, at ", call.place(phase), ": it must be that of the records of all ranks");
  TORCH_CHECK(sum != own, "sync_batch_norm: the sum over ", call.group->name(),
              " is what this rank sent, at ", call.place(phase),
              ": it must be that of the records of all ranks");
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

/// The sums of `items` over the group. They travel behind id and id squared, which tell whether all
/// ids are equal: only then is W * sum(id^2) = sum(id)^2.
at::Tensor sum_over_group(const at::Tensor& items, const Call& call, Phase phase) {
  const int size = call.group->size();
  at::Tensor first = at::zeros({kFirstItems}, items.options());
  double* const own = data_of(first);
  const double id = id_of(call, phase, size);
  own[0] = id;
  own[1] = id * id;
  const std::int64_t fitting = std::min(items.numel(), kFirstItems - 2);
  std::copy_n(items.const_data_ptr<double>(), fitting, own + 2);
  over_group(call, phase, [&] { call.group->all_reduce_sum(first); });
  const double* const ids = first.const_data_ptr<double>();
  if (!is_id_of_all(id, ids, size)) {
    check_is_sum(call, phase, id, ids[0]);
    fail_mixed_up(call, phase);
  }
  const at::Tensor sums = first.narrow(0, 2, fitting);
  if (fitting == items.numel()) return sums;
  at::Tensor rest = items.narrow(0, fitting, items.numel() - fitting).clone();
  over_group(call, phase, [&] { call.group->all_reduce_sum(rest); });
  return at::cat({sums, rest});
}

/// All items, a row per rank.
at::Tensor gather_over_group(const at::Tensor& items, const Call& call, Phase phase) {
  const std::int64_t ranks = call.group->size();
  if (ranks * items.numel() > kFirstItems - 2) {
    sum_over_group(make_record(0), call, phase);
    return over_group(call, phase, [&] { return call.group->all_gather(items); }).contiguous();
  }
  at::Tensor rows = at::zeros({ranks, items.numel()}, items.options());
  rows[call.group->rank()].copy_(items);
  return sum_over_group(rows.view(-1), call, phase).view(rows.sizes());
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
  at::Tensor record = make_record(2 * channels + 1);
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
  at::Tensor record = make_record(2 * channels + 1);
  double* const data = data_of(record);
  data[0] = own.count;
  for (std::int64_t c = 0; c < channels; ++c) {
    data[1 + c] = own.count * own.mean[c];
    data[1 + channels + c] = own.m2[c] + own.count * own.mean[c] * own.mean[c];
  }
  const at::Tensor all = sum_over_group(record, call, Phase::kForward);
  const double* const sums = all.const_data_ptr<double>();
  Moments total = {sums[0], std::vector<double>(channels), std::vector<double>(channels)};
  if (total.count == 0) return total;
  for (std::int64_t c = 0; c < channels; ++c) {
    total.mean[c] = sums[1 + c] / total.count;
    const double m2 = sums[1 + channels + c] - sums[1 + c] * total.mean[c];
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
  add(static_cast<std::uint64_t>(call.channels) << 1 | static_cast<std::uint64_t>(call.gathers));
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
  const at::Tensor items = own.view(-1);
  if (!call.gathers) return sum_over_group(items, call, phase).view(own.sizes());
  const at::Tensor all = gather_over_group(items, call, phase);
  at::Tensor sums = all.select(0, 0).clone();
  for (std::int64_t rank = 1; rank < all.size(0); ++rank) sums.add_(all.select(0, rank));
  return sums.view(own.sizes());
}

}  // namespace ddpscope::batch_norm
