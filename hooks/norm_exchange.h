#pragma once

#include <cstdint>
#include <string_view>

#include "hooks/near_tls.h"
#include "model/collective_event.h"

namespace ddpscope {

/// The exchange of a synchronised batch norm that this thread makes: the collective that it issues
/// is noted as that.
class NormExchange {
 public:
  /// `layer` lives until `end`; `call` is norm_call(); without a layer there are 0 channels.
  static void begin(std::string_view layer, std::uint32_t call, std::int64_t channels) noexcept {
    layer_ = layer;
    call_ = call;
    channels_ = channels;
  }
  static void end() noexcept { call_ = 0; }
  /// 0: there is none.
  static std::uint32_t call() noexcept { return call_; }
  static std::string_view layer() noexcept { return layer_; }
  static std::int64_t channels() noexcept { return channels_; }

  /// A forward of this thread was given statistics of other ranks that are not finite, in so many
  /// channels; those of this rank are.
  static void see_spoilt(std::int64_t step, std::int64_t channels) noexcept {
    spoilt_step_ = step;
    spoilt_channels_ = channels;
  }
  /// So many, in the last such forward of the step.
  static std::int64_t spoilt_channels(std::int64_t step) noexcept {
    return step == spoilt_step_ ? spoilt_channels_ : 0;
  }

 private:
  DDPSCOPE_NEAR static inline constinit thread_local std::string_view layer_;
  DDPSCOPE_NEAR static inline constinit thread_local std::uint32_t call_ = 0;
  DDPSCOPE_NEAR static inline constinit thread_local std::int64_t channels_ = 0;
  DDPSCOPE_NEAR static inline constinit thread_local std::int64_t spoilt_step_ = -1;
  DDPSCOPE_NEAR static inline constinit thread_local std::int64_t spoilt_channels_ = 0;
};

}  // namespace ddpscope
