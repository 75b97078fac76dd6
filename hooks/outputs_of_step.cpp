#include "hooks/outputs_of_step.h"

#include <algorithm>
#include <utility>

#include "hooks/capture.h"
#include "hooks/per_thread.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxOutputs = 1 << 13;
constexpr std::size_t kMaxTold = 16;

void count_in(std::vector<KeptOutputs>& groups, KeptOutputs&& one) {
  const auto same = std::ranges::find_if(groups, [&one](const KeptOutputs& group) {
    return group.module == one.module && group.op == one.op && group.shape == one.shape;
  });
  if (same == groups.end()) {
    groups.push_back(std::move(one));
  } else {
    same->count += one.count;
    same->bytes += one.bytes;
  }
}
}  // namespace

OutputsOfStep& OutputsOfStep::here() { return PerThread<OutputsOfStep>::get(); }

void OutputsOfStep::add(const at::Tensor& output, ModuleId module, const std::string& op) {
  if (of_step_.size() >= kMaxOutputs) return;
  is_awaited_ = true;
  of_step_.push_back({.tensor = c10::weak_intrusive_ptr<c10::TensorImpl>(output.getIntrusivePtr()),
                      .module = module,
                      .op = op});
}

void OutputsOfStep::drop_dead(std::vector<Output>& outputs) {
  std::erase_if(outputs, [](const Output& output) { return output.tensor.expired(); });
}

void OutputsOfStep::end_step(Capture& capture) {
  const bool told = std::exchange(surveyed_, !of_step_.empty());
  drop_dead(of_step_);
  drop_dead(of_step_before_);
  if (told) tell(capture);
  of_step_before_ = std::exchange(of_step_, {});
  is_awaited_ = surveyed_;
}

void OutputsOfStep::tell(Capture& capture) const {
  KeptOutputsEvent event{.at = capture.marker().now(), .outputs = {}};
  for (const Output& output : of_step_before_) {
    auto alive = output.tensor.lock();
    if (!alive.defined()) continue;
    const at::Tensor tensor(std::move(alive));
    TensorInfo info = describe(tensor, 0);
    count_in(event.outputs,
             {.module = output.module,
              .op = output.op,
              .shape = std::move(info.shape),
              .count = 1,
              .bytes = info.elements * static_cast<std::int64_t>(tensor.dtype().itemsize())});
  }
  std::ranges::stable_sort(event.outputs, std::ranges::greater(), &KeptOutputs::bytes);
  if (event.outputs.size() > kMaxTold) event.outputs.resize(kMaxTold);
  capture.put_large(std::move(event));
}

}  // namespace ddpscope
