#include "hooks/zero_gradients.h"

#include <torch/optim.h>

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <optional>

#include "hooks/capture.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
constexpr std::size_t kMaxZeroBytes = std::size_t{16} << 20;
constexpr std::size_t kBlock = 64;

// How many of the words are zero, of either sign, before the block with the first that is not.
template <class Word>
std::size_t zero_words(const void* data, std::size_t words) {
  const auto* word = static_cast<const Word*>(data);
  const auto is_zero = [](Word seen) { return static_cast<Word>(seen << 1) == 0; };
  std::size_t done = 0;
  for (; done + kBlock <= words; done += kBlock) {
    Word seen = 0;
    for (std::size_t i = 0; i < kBlock; ++i) seen |= word[done + i];
    if (!is_zero(seen)) return done;
  }
  while (done < words && is_zero(word[done])) ++done;
  return done;
}

std::size_t zero_bytes(const at::Tensor& tensor, std::size_t bytes) {
  const void* data = tensor.unsafeGetTensorImpl()->data();
  switch (c10::elementSize(c10::toRealValueType(tensor.scalar_type()))) {
    case 8:
      return 8 * zero_words<std::uint64_t>(data, bytes / 8);
    case 4:
      return 4 * zero_words<std::uint32_t>(data, bytes / 4);
    case 2:
      return 2 * zero_words<std::uint16_t>(data, bytes / 2);
    default:
      return 0;
  }
}

template <class Kind>
const Kind* as(const OptimizerOptions& options) {
  return typeid(options) == typeid(Kind) ? static_cast<const Kind*>(&options) : nullptr;
}

GroupOptions options_with(double weight_decay, double momentum,
                          std::initializer_list<double> others) {
  Hash hash;
  for (const double other : others) hash.fold(std::bit_cast<std::uint64_t>(other));
  return {.weight_decay = weight_decay, .momentum = momentum, .others = hash.value()};
}

GroupOptions with_eps(double eps, GroupOptions options) {
  options.eps = eps;
  return options;
}

template <class Adam>
GroupOptions options_of_adam(const Adam& adam) {
  const auto [first, second] = adam.betas();
  return with_eps(adam.eps(), options_with(adam.weight_decay(), first,
                                           {second, adam.eps(), double(adam.amsgrad())}));
}

/// All but the rate.
std::optional<GroupOptions> decays_of(const OptimizerOptions& options) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  if (const auto* sgd = as<SGDOptions>(options)) {
    return options_with(sgd->weight_decay(), sgd->momentum(),
                        {sgd->dampening(), double(sgd->nesterov())});
  }
  if (const auto* adam = as<AdamOptions>(options)) return options_of_adam(*adam);
  if (const auto* adam = as<AdamWOptions>(options)) return options_of_adam(*adam);
  if (const auto* prop = as<RMSpropOptions>(options)) {
    return with_eps(prop->eps(),
                    options_with(prop->weight_decay(), prop->momentum(),
                                 {prop->alpha(), prop->eps(), double(prop->centered())}));
  }
  if (const auto* grad = as<AdagradOptions>(options)) {
    return with_eps(grad->eps(),
                    options_with(grad->weight_decay(), 0, {grad->lr_decay(), grad->eps()}));
  }
  if (as<LBFGSOptions>(options) != nullptr) return GroupOptions{};
  return std::nullopt;
}

std::optional<GroupOptions> options_of(const OptimizerParamGroup& group) {
  if (!group.has_options()) return std::nullopt;
  std::optional<GroupOptions> options = decays_of(group.options());
  if (options.has_value()) options->learning_rate = group.options().get_lr();
  return options;
}
}  // namespace

void ZeroGradients::find(Capture& capture, const ParamGroups& groups, std::size_t& first) {
  std::size_t budget = kMaxZeroBytes;
  std::size_t position = 0;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& params = groups[group].params();
    for (std::size_t index = 0; index < params.size(); ++index, ++position) {
      const at::Tensor& member = params[index];
      if (position < first || !member.defined() || !has_gradient(member)) continue;
      const at::Tensor& gradient = member.grad();
      const std::size_t bytes = is_readable(gradient) ? gradient.nbytes() : 0;
      if (bytes == 0 || bytes > kMaxZeroBytes) continue;
      const std::size_t zero = zero_bytes(gradient, std::min(bytes, budget));
      if (zero == budget && zero < bytes) {
        first = position;
        return;
      }
      budget -= zero;
      if (zero == bytes) {
        members_.push_back({group, index, capture.announce(member), sample_of(member)});
      }
    }
  }
  first = 0;
}

std::vector<ZeroGradient> ZeroGradients::moved(Capture& capture, const ParamGroups& groups) const {
  std::vector<ZeroGradient> moved;
  for (const Member& member : members_) {
    if (member.group >= groups.size()) continue;
    const auto& params = groups[member.group].params();
    if (member.index >= params.size() || !params[member.index].defined()) continue;
    const at::Tensor& tensor = params[member.index];
    if (capture.id_of(tensor) != member.tensor) continue;
    moved.push_back(
        {.tensor = member.tensor, .update_ratio = update_ratio(member.before, sample_of(tensor))});
  }
  return moved;
}

std::vector<GroupOptions> options_of(const ParamGroups& groups) {
  std::vector<GroupOptions> all;
  for (const OptimizerParamGroup& group : groups) {
    const auto options = options_of(group);
    if (!options.has_value()) return {};
    all.push_back(*options);
  }
  return all;
}

std::uint64_t hash_options(const ParamGroups& groups) {
  Hash hash;
  for (const OptimizerParamGroup& group : groups) {
    const auto options = options_of(group);
    if (!options.has_value()) return 1;
    hash.fold(std::bit_cast<std::uint64_t>(options->learning_rate));
    hash.fold(std::bit_cast<std::uint64_t>(options->weight_decay));
    hash.fold(std::bit_cast<std::uint64_t>(options->momentum));
    hash.fold(options->others);
  }
  return hash.value();
}

std::uint64_t kind_of_rates(const std::vector<GroupOptions>& groups) {
  if (groups.empty()) return 0;
  const double least = std::ranges::min(groups, {}, &GroupOptions::learning_rate).learning_rate;
  const double most = std::ranges::max(groups, {}, &GroupOptions::learning_rate).learning_rate;
  return least < 0 ? 2 : (most == 0 ? 1 : 0);
}

}  // namespace ddpscope
