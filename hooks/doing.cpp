#include "hooks/doing.h"

#include <algorithm>
#include <array>

#include "hooks/optimizer_watch.h"
#include "stacks/capture.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxFrames = 64;

StackId take_stack(StackTable* stacks, std::size_t depth) noexcept {
  if (stacks == nullptr) return 0;
  std::array<void*, kMaxFrames> frames;
  const CapturedStack taken = capture_stack(std::span(frames).first(depth));
  return stacks->intern(std::span(frames).first(taken.frames));
}
}  // namespace

Doing doing_now(Capture& capture) noexcept {
  const Stamp now = capture.marker().now();
  return {.step = now.step,
          .cycle = now.cycle,
          .module = ModuleCalls::innermost(),
          .optimizer = current_optimizer(),
          .stack = take_stack(capture.options().stacks,
                              std::min(capture.options().stack_depth, kMaxFrames))};
}

StackId thrown_from(const Capture& capture) noexcept {
  return take_stack(capture.options().thrown, kMaxFrames);
}

}  // namespace ddpscope
