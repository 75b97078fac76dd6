#include "checks/kept_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::string_view kNeverDivided = "clip, step";

bool may_be_adapted(double scale) {
  constexpr double kLeast = 1024;
  int exponent = 0;
  return scale >= kLeast && std::frexp(scale, &exponent) == 0.5;
}
}  // namespace

bool is_scaled_limit(double limit, double scale, double true_norm) {
  const double scaled = std::abs(std::log2(limit / (scale * true_norm)));
  const double plain = std::abs(std::log2(limit / true_norm));
  return scaled <= 1 || scaled <= plain || limit >= scale * true_norm;
}

Finding clip_before_unscale(const Clip& clip, double scale, const std::string& order,
                            const RunState& state) {
  const double norm = clip.norm / scale;
  Finding finding = about_gradients_of(clip.first, state);
  finding.severity = Severity::kError;
  finding.step = state.now().step;
  finding.what =
      fmt::format("gradients were clipped to norm {:.4g} {} the loss scale {:.6g}", clip.limit,
                  order == kNeverDivided ? "and stepped with, and nothing divided out"
                                         : "before they were divided by",
                  scale);
  finding.why =
      fmt::format("norm before the clip {:.2g}, true norm {:.2g}: factor {:.2g} instead of {:.2g}",
                  clip.norm, norm, clip.factor, std::min(1.0, clip.limit / norm));
  finding.fixes = {
      {"divide the gradients by the scale, then clip, then step()", Applicability::kLikely},
      {"clip to max_norm times the scale", Applicability::kLikely}};
  if (order == kNeverDivided) finding.fixes.pop_back();
  finding.facts = {{fact::kLossScale, scale},    {fact::kMaxNorm, clip.limit},
                   {fact::kNormSeen, clip.norm}, {fact::kNormUnscaled, norm},
                   {fact::kFactor, clip.factor}, {fact::kOrder, order}};
  return finding;
}

void KeptScale::on_backward(const LossScale& scale) {
  squares_.clear();
  if (!scale.now().has_value()) return;
  const double now = may_be_adapted(*scale.now()) ? *scale.now() : 0;
  if (now == 0) on_dropped();
  is_adapted_ |= last_ > 0 && now != last_;
  last_ = now;
}

void KeptScale::on_dropped() {
  squares_.clear();
  last_ = 0;
  is_adapted_ = false;
  steps_ = 0;
}

bool KeptScale::lasts(const Clip& clip, double scale) {
  constexpr std::int64_t kSteps = 2;
  constexpr double kByAverage = 8;
  double squares = 0;
  for (const auto& [tensor, square] : squares_) squares += square;
  const bool is_known = is_adapted_ && may_be_adapted(scale) && squares > 0;
  // An average over ranks is smaller than what arrived, but not by as much as a scale.
  const bool is_in_it = std::isfinite(clip.norm) && kByAverage * clip.norm > std::sqrt(squares);
  if (!is_known || !is_in_it || is_scaled_limit(clip.limit, scale, clip.norm / scale)) return false;
  return ++steps_ >= kSteps;
}

}  // namespace ddpscope
