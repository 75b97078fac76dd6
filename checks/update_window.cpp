#include "checks/update_window.h"

#include <algorithm>

#include "model/statistics.h"

namespace ddpscope {
namespace {
constexpr double kExploding = 0.1;
constexpr int kOften = 4;
}  // namespace

void UpdateWindow::add(const ParameterUpdate& update) {
  if (is_full()) samples_.pop_front();
  samples_.push_back(update);
  moved_ |= !update.unchanged.value_or(false);
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

bool UpdateWindow::has_no_size() const {
  return std::ranges::any_of(samples_, &ParameterUpdate::size_is_zero);
}

bool UpdateWindow::is_unchanged() const {
  return std::ranges::all_of(
      samples_, [](const ParameterUpdate& sample) { return sample.unchanged.value_or(false); });
}

bool UpdateWindow::is_exploding() const {
  return std::ranges::count_if(samples_, [](const ParameterUpdate& sample) {
           return sample.update_ratio > kExploding;
         }) >= kOften;
}

bool UpdateWindow::is_conclusive() const {
  return std::ranges::all_of(samples_, [](const ParameterUpdate& sample) {
    return sample.update_ratio > 0 || sample.unchanged.value_or(false);
  });
}

}  // namespace ddpscope
