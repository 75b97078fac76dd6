#pragma once

#include <ddpscope/export.h>

#include <cstdint>
#include <span>
#include <string_view>

/// What the operators learn on the way, for whoever watches them. No tensors, nothing is copied.
namespace ddpscope {
inline namespace api0 {

enum class NormPass : std::uint8_t { kForward, kBackward, kSecondBackward };

/// One exchange of `sync_batch_norm`.
struct NormExchangeFacts {
  std::string_view layer;  ///< as the program named it
  std::int64_t call = 0;   ///< of this layer over this group, from 1
  NormPass pass = NormPass::kForward;
  std::int64_t channels = 0;
};

/// The statistics of one forward of `sync_batch_norm`, of all ranks and of this one.
struct NormBatchFacts {
  std::string_view layer;
  std::int64_t call = 0;
  std::int64_t ranks = 1;
  std::int64_t channels = 0;
  double own_values = 0;            ///< per channel
  double values = 0;                ///< likewise, of all ranks
  std::int64_t dead = 0;            ///< channels with a variance of at most 1e-12 * (1 + mean^2)
  std::int64_t not_finite = 0;      ///< channels of which mean or variance is not
  std::int64_t own_not_finite = 0;  ///< likewise, by the values of this rank alone
  /// Share of the variance that lies between this rank and the others, over all channels that are
  /// not dead: n (m - mean)^2 / (N variance), 0 to 1. Its sum over ranks is the skew of the data.
  double own_share = 0;
  bool is_recomputed = false;  ///< inside a backward
};

/// One call of `clip_grad_norm_`, or of that of `compat`, before the gradients are changed.
struct ClipFacts {
  double max_norm = 0;
  double total_norm = 0;     ///< after `inverse_scale`, of all shards
  int ranks = 1;             ///< that hold shards
  double inverse_scale = 1;  ///< that gradients are multiplied by first
  double coefficient = 0;    ///< that they are multiplied by then
  /// Whether the coefficient follows from the limit: not from an infinite one, nor where a norm or
  /// gradient that is not finite is spared.
  bool is_limited = false;
  bool is_refused = false;   ///< the call throws for a norm that is not finite, and writes nothing
  bool is_deferred = false;  ///< it writes nothing: who steps multiplies
  /// Where the values of each gradient of the list begin; null where there are none, and for
  /// sparse ones.
  std::span<const void* const> gradients = {};
  std::int64_t tensors = 0;
  std::int64_t first_bad = -1;  ///< position of the first with a NaN or Inf; -1: none
  std::int64_t nan_count = 0;   ///< of that one
  std::int64_t inf_count = 0;   ///< likewise
};

/// Is told on the thread that calls an operator. Must not call operators and not wait.
class DDPSCOPE_API OpObserver {
 public:
  OpObserver() = default;
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;
  virtual ~OpObserver();
  /// Every exchange that begins ends, also where it throws.
  virtual void norm_exchange_begins(const NormExchangeFacts& exchange) noexcept;
  virtual void norm_exchange_ended(const NormExchangeFacts& exchange, bool threw) noexcept;
  virtual void norm_forward(const NormBatchFacts& batch) noexcept;
  virtual void clipped(const ClipFacts& clip) noexcept;
};

/// The one observer of this process; null, the default: facts are not made. It must outlive every
/// call of an operator that began before it was replaced. Thread: any.
/// @return the one before, null if there was none: whoever observes passes on to it what it is
/// told.
DDPSCOPE_API OpObserver* set_op_observer(OpObserver* observer) noexcept;

}  // namespace api0
}  // namespace ddpscope
