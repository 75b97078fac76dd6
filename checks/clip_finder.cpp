#include "checks/clip_finder.h"

#include <algorithm>
#include <cmath>

namespace ddpscope {
namespace {
constexpr double kSameLimit = 0.01;
constexpr double kOtherFactor = 0.001;

bool differ(double a, double b, double by) {
  return std::abs(a - b) > by * std::max(std::abs(a), std::abs(b));
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

const std::vector<OptimizerMember>* group_of(TensorId tensor, const RunState& state) {
  const TensorState* known = state.tensor(tensor);
  if (known == nullptr) return nullptr;
  for (const OptimizerId owner : known->owners) {
    const auto optimizer = state.optimizers().find(owner);
    if (optimizer == state.optimizers().end()) continue;
    for (const auto& group : optimizer->second.groups) {
      if (std::ranges::find(group, tensor, &OptimizerMember::tensor) != group.end()) return &group;
    }
  }
  return nullptr;
}

bool has_gradient(const TensorState& tensor, const RunState& state) {
  return tensor.gradient_cycle == state.now().cycle;
}
}  // namespace

std::int64_t gradients_beside(TensorId tensor, const RunState& state) {
  if (const auto* group = group_of(tensor, state)) {
    return std::ranges::count_if(*group, [&](const OptimizerMember& member) {
      const TensorState* known = state.tensor(member.tensor);
      return known != nullptr && has_gradient(*known, state);
    });
  }
  return std::ranges::count_if(
      state.tensors().all(), [&](const auto& entry) { return has_gradient(entry.second, state); });
}

bool is_step_of(const OptimizerStepEvent& event, TensorId tensor, const RunState& state) {
  const TensorState* known = state.tensor(tensor);
  if (event.threw || known == nullptr) return false;
  return known->owners.empty() || known->is_owned_by(event.optimizer);
}

bool have_same_owners(TensorId a, TensorId b, const RunState& state) {
  const TensorState* one = state.tensor(a);
  const TensorState* other = state.tensor(b);
  return one != nullptr && other != nullptr && one->owners == other->owners;
}

Finding about_gradients_of(TensorId tensor, const RunState& state) {
  Finding finding;
  finding.phase = Phase::kOptimizer;
  const TensorState* known = state.tensor(tensor);
  const ModelState* model = known != nullptr ? state.model_of(*known) : state.first_model();
  if (model != nullptr) finding.model = model->label;
  return finding;
}

void ClipFinder::on_gradient_values(const GradientValuesEvent& event) {
  squares_[event.tensor] = event.sum_of_squares;
}

void ClipFinder::on_backward() {
  squares_.clear();
  scaled_by_.clear();
}

void ClipFinder::on_dropped() {
  on_backward();
  seen_.clear();
}

// Of the gradients that were scaled, where each of them was read as it arrived.
std::optional<double> ClipFinder::norm_of(const GradientsScaledEvent& event,
                                          const RunState& state) const {
  const TensorState* first = state.tensor(event.first);
  if (first == nullptr) return std::nullopt;
  double squares = 0;
  std::int64_t gradients = 0;
  for (const auto& [id, square] : squares_) {
    const TensorState* tensor = state.tensor(id);
    if (tensor == nullptr || tensor->owners != first->owners) continue;
    squares += square;
    ++gradients;
  }
  if (gradients != event.gradients) return std::nullopt;
  const auto scaled = scaled_by_.find(event.first);
  return std::sqrt(squares) * (scaled == scaled_by_.end() ? 1 : scaled->second);
}

std::optional<Clip> ClipFinder::find_by_limit(const GradientsScaledEvent& event,
                                              std::optional<double> norm) {
  const double factor = *event.factor;
  if (factor <= 0 || factor >= 1 || is_power_of_two(factor)) return std::nullopt;
  Seen& seen = seen_[event.first];
  if (!norm.has_value() || *norm <= 0) {
    if (!seen.confirmed) return std::nullopt;
    return Clip{event.first, factor, seen.limit, seen.limit / factor};
  }
  const double limit = factor * *norm;
  const bool same_limit = seen.limit > 0 && !differ(limit, seen.limit, kSameLimit);
  seen.confirmed = same_limit && (seen.confirmed || differ(factor, seen.factor, kOtherFactor));
  seen.factor = factor;
  seen.limit = limit;
  if (!seen.confirmed) return std::nullopt;
  return Clip{event.first, factor, limit, *norm};
}

std::optional<Clip> ClipFinder::find(const GradientsScaledEvent& event, const RunState& state) {
  if (2 * event.gradients < gradients_beside(event.first, state)) return std::nullopt;
  if (!event.factor.has_value()) return std::nullopt;
  std::optional<Clip> clip;
  if (event.quotient.has_value()) {
    const ClipQuotient& of = *event.quotient;
    clip = Clip{event.first, *event.factor, of.limit, of.norm, of.ranks};
  } else {
    clip = find_by_limit(event, norm_of(event, state));
  }
  scaled_by_.try_emplace(event.first, 1).first->second *= *event.factor;
  return clip;
}

}  // namespace ddpscope
