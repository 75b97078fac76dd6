#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

/// One run over one input: what libFuzzer calls, and what replays the seeds.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ddpscope::fuzz {

/// Ends the process with `what` where a property does not hold, so that the input is kept.
inline void require(bool holds, std::string_view what, std::string_view detail = {}) {
  if (holds) return;
  std::cerr << "does not hold: " << what << "\n" << detail << std::endl;
  std::abort();
}

}  // namespace ddpscope::fuzz
