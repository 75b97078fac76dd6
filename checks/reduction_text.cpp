#include "checks/reduction_text.h"

#include <fmt/format.h>

namespace ddpscope {

std::string calls_text(std::int64_t calls) {
  if (calls == 0) return "no collective was issued in that step";
  if (calls == 1) return "1 collective was issued in that step";
  return fmt::format("{} collectives were issued in that step", calls);
}

}  // namespace ddpscope
