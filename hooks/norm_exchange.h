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
  /// `layer` lives until `end`; `call` is norm_call().
  static void begin(std::string_view layer, std::uint32_t call) noexcept {
    layer_ = layer;
    call_ = call;
  }
  static void end() noexcept { call_ = 0; }
  /// 0: there is none.
  static std::uint32_t call() noexcept { return call_; }
  static std::string_view layer() noexcept { return layer_; }

 private:
  DDPSCOPE_NEAR static inline constinit thread_local std::string_view layer_;
  DDPSCOPE_NEAR static inline constinit thread_local std::uint32_t call_ = 0;
};

}  // namespace ddpscope
