#include "plugin/op_watch.h"

#include <ddpscope/ops/op_facts.h>

#include "hooks/capture.h"
#include "hooks/gradient_scaling.h"
#include "hooks/norm_exchange.h"
#include "hooks/training_ops.h"

namespace ddpscope {
namespace {
class OpWatch final : public OpObserver {
 public:
  void norm_exchange_begins(const NormExchangeFacts& exchange) noexcept override {
    if (before_ != nullptr) before_->norm_exchange_begins(exchange);
    const auto phase =
        static_cast<NormPhase>(static_cast<int>(NormPhase::kForward) + int(exchange.pass));
    NormExchange::begin(exchange.layer.empty() ? "a layer without a name" : exchange.layer,
                        norm_call(phase, static_cast<std::uint64_t>(exchange.call)),
                        exchange.channels);
  }
  void norm_exchange_ended(const NormExchangeFacts& exchange, bool threw) noexcept override {
    NormExchange::end();
    if (before_ != nullptr) before_->norm_exchange_ended(exchange, threw);
  }
  void norm_forward(const NormBatchFacts& batch) noexcept override {
    const std::int64_t spoilt = batch.not_finite - batch.own_not_finite;
    const Capture* const capture = Capture::active();
    if (spoilt > 0 && capture != nullptr) {
      NormExchange::see_spoilt(capture->marker().now().step, spoilt);
    }
    if (batch.ranks > 1 && !batch.is_recomputed) {
      see_norm_over_ranks(static_cast<std::int64_t>(batch.values), batch.channels);
    }
    if (before_ != nullptr) before_->norm_forward(batch);
  }
  void clipped(const ClipFacts& clip) noexcept override {
    if (!clip.is_refused) {
      WholeClip whole{.values = clip.gradients};
      if (!clip.is_deferred) {
        whole.unscaled_by = clip.inverse_scale;
        whole.factor = clip.coefficient;
      }
      if (clip.is_limited) {
        whole.quotient = {.limit = clip.max_norm, .norm = clip.total_norm, .ranks = clip.ranks};
      }
      see_clip(whole);
    }
    if (before_ != nullptr) before_->clipped(clip);
  }
  void stand_before(OpObserver* observer) noexcept { before_ = observer; }

 private:
  OpObserver* before_ = nullptr;  ///< of the program
};
}  // namespace

void watch_own_ops() noexcept {
  static auto* const leaked = new OpWatch;
  leaked->stand_before(set_op_observer(leaked));
}

}  // namespace ddpscope
