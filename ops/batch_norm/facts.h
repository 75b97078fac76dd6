#pragma once

#include "ops/batch_norm/exchange.h"
#include "ops/observer.h"

namespace ddpscope::batch_norm {

/// Tells the observer of one exchange, from here to the end of the scope.
class ObservedExchange {
 public:
  ObservedExchange(const Call& call, Phase phase) noexcept;
  ~ObservedExchange() noexcept;
  ObservedExchange(const ObservedExchange&) = delete;
  ObservedExchange& operator=(const ObservedExchange&) = delete;

 private:
  OpObserver* const observer_;
  const NormExchangeFacts facts_;
  const int exceptions_;
};

/// Tells the observer of the statistics of a forward.
void tell_forward(const Moments& own, const Moments& all, const Call& call, bool is_recomputed);

}  // namespace ddpscope::batch_norm
