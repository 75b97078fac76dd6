#include "checks/nonfinite_gradients.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "checks/subtree.h"

namespace ddpscope {
namespace {
constexpr std::size_t kNamed = 3;
}  // namespace

void NonfiniteGradients::on_backward() {
  ++backwards_;
  values_seen_ = may_overflow_ = false;
}

// Far below the limits, as other gradients may not have been read.
void NonfiniteGradients::on_gradient_values(const GradientValuesEvent& event) {
  const double large = event.dtype == "float16" ? 1e6 : 1e30;
  values_seen_ = true;
  may_overflow_ |= event.sum_of_squares > large;
}

// A gradient that was cleared: what was found in the one before is over. What was found in this
// one may have been told already.
void NonfiniteGradients::on_gradient(const GradientEvent& event) {
  if (event.before == GradientBefore::kKept) return;
  std::erase_if(found_, [&](const Found& found) {
    return found.tensor == event.tensor && found.backward != backwards_;
  });
}

void NonfiniteGradients::on_nonfinite_gradient(const NonfiniteGradientEvent& event) {
  values_seen_ = true;
  const auto known = std::ranges::find(found_, event.tensor, &Found::tensor);
  if (known != found_.end()) found_.erase(known);
  found_.push_back({event.tensor, event.values, backwards_});
}

std::vector<NonfiniteGradients::Found> NonfiniteGradients::beside(TensorId tensor,
                                                                  const RunState& state) const {
  const TensorState* one = state.tensor(tensor);
  std::vector<Found> beside;
  for (const Found& found : found_) {
    const TensorState* other = state.tensor(found.tensor);
    if (one == nullptr || (other != nullptr && other->owners == one->owners)) {
      beside.push_back(found);
    }
  }
  return beside;
}

std::vector<std::string> NonfiniteGradients::first_names(const std::vector<Found>& found,
                                                         const RunState& state) {
  std::vector<std::string> names;
  for (const Found& one : found) {
    const TensorState* tensor = state.tensor(one.tensor);
    if (tensor != nullptr && names.size() < kNamed) names.push_back(tensor_path(*tensor));
  }
  return names;
}

std::string NonfiniteGradients::text(const std::vector<Found>& found, const RunState& state) {
  const std::string names = joined(first_names(found, state));
  if (found.size() > kNamed) {
    return fmt::format("{} and {} more were non-finite", names, found.size() - kNamed);
  }
  if (found.size() > 1) return fmt::format("{} were non-finite", names);
  const ValueRange& values = found.front().values;
  return fmt::format("{} was non-finite ({} of {})", names, values.nan_count + values.inf_count,
                     counted(values.elements, "element"));
}

}  // namespace ddpscope
