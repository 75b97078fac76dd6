#include "hooks/parameter_updates.h"

#include <torch/optim.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "hooks/capture.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kFirstUpdates = 100;
constexpr std::int64_t kOneOf = 16;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

std::size_t hash_of_bits(const at::Tensor& tensor) {
  const auto* const data = static_cast<const char*>(tensor.unsafeGetTensorImpl()->data());
  return std::hash<std::string_view>{}(std::string_view(data, tensor.nbytes()));
}

double norm_from(const ValueSample& sample, std::int64_t elements) {
  const double share = static_cast<double>(elements) / static_cast<double>(sample.count);
  return std::sqrt(squares_of(sample) * share);
}

// NaN: an own class of options has no rate that could be asked for without an exception.
double rate_of(const torch::optim::OptimizerParamGroup& group) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (!group.has_options()) return kUnknown;
  const OptimizerOptions& options = group.options();
  const std::type_info& type = typeid(options);
  const bool is_known = type == typeid(SGDOptions) || type == typeid(AdamOptions) ||
                        type == typeid(AdamWOptions) || type == typeid(RMSpropOptions) ||
                        type == typeid(AdagradOptions) || type == typeid(LBFGSOptions);
  return is_known ? options.get_lr() : kUnknown;
}
}  // namespace

void ParameterUpdates::begin(Capture& capture, const ParamGroups& groups) {
  members_.clear();
  const std::int64_t step = capture.marker().now().step;
  if (step <= kFirstUpdates) return;
  budget_ = kMaxBytes;
  std::size_t position = 0;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& params = groups[group].params();
    for (std::size_t index = 0; index < params.size(); ++index, ++position) {
      if (position >= seen_.size()) seen_.push_back({.step = step - kOneOf});
      if (!is_due(position, step)) continue;
      add(capture, groups[group], {.group = group, .index = index, .position = position});
    }
  }
}

// In steps that are all watched each has its own turn; one that hooks slept through is made up for.
bool ParameterUpdates::is_due(std::size_t position, std::int64_t step) const {
  const bool is_turn = (static_cast<std::int64_t>(position) + step) % kOneOf == 0;
  const std::int64_t since = step - seen_[position].step;
  return is_turn ? since >= kOneOf : since > 2 * kOneOf;
}

void ParameterUpdates::add(Capture& capture, const torch::optim::OptimizerParamGroup& group,
                           Member member) {
  const at::Tensor& tensor = group.params()[member.index];
  if (!tensor.defined() || !tensor.requires_grad() || !has_gradient(tensor)) return;
  const ValueSample gradient = sample_of(tensor.grad());
  member.before = sample_of(tensor);
  if (member.before.count == 0 || squares_of(gradient) == 0) return;
  member.update = {.tensor = capture.announce(tensor),
                   .size_is_zero = squares_of(member.before) == 0,
                   .gradient_norm = norm_from(gradient, tensor.numel()),
                   .lr = rate_of(group)};
  Seen& seen = seen_[member.position];
  seen.step = capture.marker().now().step;
  if (!seen.moves && tensor.nbytes() <= budget_) {
    budget_ -= tensor.nbytes();
    member.bits = hash_of_bits(tensor);
  }
  members_.push_back(member);
}

bool ParameterUpdates::finish(Capture& capture, const ParamGroups& groups, Member& member) {
  if (member.group >= groups.size()) return false;
  const auto& params = groups[member.group].params();
  if (member.index >= params.size() || !params[member.index].defined()) return false;
  const at::Tensor& tensor = params[member.index];
  if (capture.id_of(tensor) != member.update.tensor) return false;
  const ValueSample after = sample_of(tensor);
  if (after.count != member.before.count) return false;
  member.update.update_ratio = update_ratio(member.before, after);
  seen_[member.position].moves = member.update.update_ratio > 0;
  if (member.bits.has_value()) member.update.unchanged = hash_of_bits(tensor) == *member.bits;
  return true;
}

std::vector<ParameterUpdate> ParameterUpdates::end(Capture& capture, const ParamGroups& groups) {
  std::vector<ParameterUpdate> updates;
  updates.reserve(members_.size());
  for (Member& member : members_) {
    if (finish(capture, groups, member)) updates.push_back(member.update);
  }
  members_.clear();
  return updates;
}

}  // namespace ddpscope
