#include "report/report_writer.h"

namespace ddpscope {

std::span<const Format> formats() {
#define DDPSCOPE_FORMAT(name, file, summary) {#name, file, summary, &render_##name},
  static constexpr Format kFormats[] = {
#include "report/formats.def"
  };
#undef DDPSCOPE_FORMAT
  return kFormats;
}

}  // namespace ddpscope
