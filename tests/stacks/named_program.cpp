#include <cstdio>
#include <vector>

#include "stacks/capture.h"
#include "stacks/frame_names.h"
#include "stacks/symbolizer.h"

// Exits 0 if the program's own frames are named, wherever it was linked to. A stripped one is
// started with "stripped" and expects its frames to have an offset and a build id alone.
namespace {

volatile int sink = 0;

[[gnu::noinline]] std::vector<void*> inner() {
  std::vector<void*> frames(32);
  frames.resize(ddpscope::capture_stack(frames).frames);  // LINE
  sink = sink + 1;
  return frames;
}

}  // namespace

int main(int count, char**) {
  const bool stripped = count > 1;
  const std::vector<void*> stack = inner();
  const ddpscope::Site site = ddpscope::Symbolizer().site("used", stack);
  const ddpscope::Frame* frame = ddpscope::user_frame(site);
  if (frame == nullptr) return 1;
  std::printf("%s %s:%ld %s+%#lx %s\n", frame->function.c_str(), frame->file.c_str(),
              long(frame->line), frame->module.c_str(), static_cast<unsigned long>(frame->offset),
              frame->build_id.c_str());
  if (frame->offset == 0 || frame->build_id.empty()) return 1;
  if (stripped) return frame->line == 0 && frame->file.empty() && frame->function.empty() ? 0 : 1;
  const bool named = frame->function == "(anonymous namespace)::inner" &&
                     frame->source.ends_with("// LINE") && site.frames.size() > 2;
  return named ? 0 : 1;
}
