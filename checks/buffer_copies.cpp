#include "checks/buffer_copies.h"

#include <algorithm>

namespace ddpscope {
namespace {
constexpr std::size_t kMaxCopies = 65536;
}  // namespace

void BufferCopies::add(const OpEvent& event, const RunState& state) {
  TensorId buffer = 0;
  for (const TensorId input : event.inputs) {
    const TensorState* tensor = state.tensor(input);
    if (tensor != nullptr && tensor->is_buffer && !tensor->registrations.empty()) {
      buffer = input;
      read_step_[input] = event.at.step;
    } else if (const auto copy = copies_.find(input); copy != copies_.end()) {
      buffer = copy->second;
      copy_read_step_[buffer] = event.at.step;
    }
  }
  const TensorState* origin = state.tensor(buffer);
  if (origin == nullptr) return;
  if (copies_.size() > kMaxCopies) copies_.clear();
  for (const TensorInfo& output : event.outputs) {
    const bool is_input = std::ranges::find(event.inputs, output.id) != event.inputs.end();
    const bool is_like = output.shape == origin->info.shape && output.dtype == origin->info.dtype;
    if (is_input || !is_like || output.storage == origin->info.storage) continue;
    copies_[output.id] = buffer;
  }
}

bool BufferCopies::replaced(TensorId buffer) const {
  const auto copy = copy_read_step_.find(buffer);
  const auto own = read_step_.find(buffer);
  return copy != copy_read_step_.end() && own != read_step_.end() && own->second < copy->second;
}

}  // namespace ddpscope
