#include "checks/update_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr double kExploding = 0.1;
constexpr std::size_t kWithoutRate = 4;
constexpr double kLostRate = 1e-6;
constexpr std::int64_t kRound = 16;
constexpr std::int64_t kEndOfRound = 4;
constexpr std::int64_t kEnoughSteps = 228;  // for all samples where each step is watched
}  // namespace

void UpdateWindow::add(const ParameterUpdate& update) {
  if (is_full()) samples_.pop_front();
  samples_.push_back(update);
  moved_ |= !update.unchanged.value_or(false);
  most_lr_ = std::max(most_lr_, update.lr);
}

double UpdateWindow::ratio_median() const {
  std::vector<double> ratios;
  for (const ParameterUpdate& sample : samples_) ratios.push_back(sample.update_ratio);
  return quantile(std::move(ratios), 0.5);
}

double UpdateWindow::gradient_median() const {
  std::vector<double> norms;
  for (const ParameterUpdate& sample : samples_) norms.push_back(sample.gradient_norm);
  return quantile(std::move(norms), 0.5);
}

bool UpdateWindow::has_no_rate() const {
  return samples_.size() >= kWithoutRate && is_unchanged() &&
         std::ranges::all_of(samples_,
                             [](const ParameterUpdate& sample) { return sample.lr == 0; });
}

bool UpdateWindow::has_no_size() const {
  return std::ranges::any_of(samples_, &ParameterUpdate::size_is_zero);
}

bool UpdateWindow::is_unchanged() const {
  return std::ranges::all_of(
      samples_, [](const ParameterUpdate& sample) { return sample.unchanged.value_or(false); });
}

bool UpdateWindow::has_lost_rate() const {
  return std::ranges::all_of(
      samples_, [this](const ParameterUpdate& sample) { return sample.lr < kLostRate * most_lr_; });
}

bool UpdateWindow::is_exploding() const { return ratio_median() > kExploding; }

bool UpdateWindow::is_conclusive() const {
  return std::ranges::all_of(samples_, [](const ParameterUpdate& sample) {
    return sample.update_ratio > 0 || sample.unchanged.value_or(false);
  });
}

bool UpdateRounds::ends(std::int64_t watched, std::int64_t step) {
  const std::int64_t since = step - std::exchange(last_, step);
  return watched % kRound == kEndOfRound || since > kRound;
}

double gradient_ratio(const UpdateWindows& windows, const ModelState* model) {
  std::vector<double> norms;
  for (const RegisteredTensor& registered :
       model != nullptr ? model->tensors : std::vector<RegisteredTensor>()) {
    const auto window = windows.find(registered.tensor.id);
    if (registered.tensor.shape.size() < 2 || window == windows.end()) continue;
    norms.push_back(window->second.gradient_median());
  }
  const double none = std::numeric_limits<double>::infinity();
  return norms.size() < 2 || norms.back() == 0 ? none : norms.front() / norms.back();
}

bool some_rate(const UpdateWindows& windows) {
  return !std::ranges::all_of(windows,
                              [](const auto& entry) { return entry.second.never_had_rate(); });
}

double largest_gradient(const UpdateWindows& windows) {
  double largest = 0;
  for (const auto& [id, window] : windows) largest = std::max(largest, window.gradient_median());
  return largest;
}

std::string why_unfinished(const UpdateWindows& windows, std::int64_t steps) {
  std::size_t most = 0;
  for (const auto& [id, window] : windows) most = std::max(most, window.samples());
  if (steps < kEnoughSteps || most == UpdateWindow::kSamples) return "";
  return fmt::format(
      "{} of {} samples in {} steps: the budget allowed no more{}", most, UpdateWindow::kSamples,
      steps, most == 0 ? ", no parameter is in memory of the host, or all gradients were 0" : "");
}

}  // namespace ddpscope
