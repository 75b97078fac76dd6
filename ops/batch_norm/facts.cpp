#include "ops/batch_norm/facts.h"

#include <cmath>
#include <exception>

namespace ddpscope::batch_norm {
namespace {
constexpr double kDeadVariance = 1e-12;

std::int64_t channels_not_finite(const Moments& moments) {
  std::int64_t count = 0;
  for (std::size_t c = 0; c < moments.mean.size(); ++c) {
    count += !std::isfinite(moments.mean[c]) || !std::isfinite(moments.m2[c]);
  }
  return count;
}
}  // namespace

ObservedExchange::ObservedExchange(const Call& call, Phase phase) noexcept
    : observer_(op_observer()),
      facts_{.layer = call.layer,
             .call = call.number,
             .pass = static_cast<NormPass>(phase),
             .channels = call.channels},
      exceptions_(std::uncaught_exceptions()) {
  if (observer_ != nullptr) observer_->norm_exchange_begins(facts_);
}

ObservedExchange::~ObservedExchange() noexcept {
  if (observer_ == nullptr) return;
  observer_->norm_exchange_ended(facts_, std::uncaught_exceptions() > exceptions_);
}

void tell_forward(const Moments& own, const Moments& all, const Call& call, bool is_recomputed) {
  OpObserver* const observer = op_observer();
  if (observer == nullptr) return;
  NormBatchFacts facts{.layer = call.layer,
                       .call = call.number,
                       .ranks = call.group ? call.group->size() : 1,
                       .channels = static_cast<std::int64_t>(all.mean.size()),
                       .own_values = own.count,
                       .values = all.count,
                       .not_finite = channels_not_finite(all),
                       .own_not_finite = channels_not_finite(own),
                       .is_recomputed = is_recomputed};
  double apart = 0, total = 0;
  for (std::size_t c = 0; c < all.mean.size() && all.count > 0; ++c) {
    const double mean = all.mean[c], shift = own.mean[c] - mean;
    if (all.m2[c] <= all.count * kDeadVariance * (1 + mean * mean)) {
      ++facts.dead;
    } else if (std::isfinite(all.m2[c]) && std::isfinite(shift)) {
      apart += own.count * shift * shift / all.m2[c];
      ++total;
    }
  }
  if (total > 0) facts.own_share = apart / total;
  observer->norm_forward(facts);
}

}  // namespace ddpscope::batch_norm
