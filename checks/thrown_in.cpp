#include "checks/thrown_in.h"

#include <utility>

#include "checks/site_source.h"
#include "checks/site_text.h"

namespace ddpscope {

ThrownIn thrown_in(const ErrorEvent& event, const RunState& state) {
  if (event.stack == 0 || state.sites() == nullptr) return {};
  ThrownIn thrown{.site = state.sites()->site(event.stack)};
  thrown.site.role = "called";
  thrown.line = line_of(thrown.site);
  for (const Frame& frame : thrown.site.frames) {
    if (!frame.library) break;
    std::string op = state.sites()->operator_called_by(frame.function);
    if (!op.empty()) thrown.op = std::move(op);
  }
  return thrown;
}

}  // namespace ddpscope
