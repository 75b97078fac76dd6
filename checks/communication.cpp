#include "checks/communication.h"

#include <functional>
#include <utility>

#include "checks/byte_text.h"
#include "model/statistics.h"

namespace ddpscope {
namespace {
template <class Measure>
double median_of_cycles(const std::vector<CycleTraffic>& cycles, const Measure& measure) {
  std::vector<double> values;
  for (const CycleTraffic& cycle : cycles) values.push_back(static_cast<double>(measure(cycle)));
  return median(std::move(values));
}
}  // namespace

UsualTraffic usual_of(const std::vector<CycleTraffic>& cycles) {
  UsualTraffic usual{
      .calls = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::calls)),
      .summed_backwards = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::summed_backwards)),
      .bytes = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::bytes)),
      .median_bytes = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::median_bytes)),
      .waited_ms = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::waited_ms))};
  const double gradients = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::gradient_bytes));
  const double overlapped = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::backward_bytes));
  const double wall_ms = median_of_cycles(cycles, std::mem_fn(&CycleTraffic::wall_ms));
  if (gradients > 0) usual.bytes_ratio = usual.bytes / gradients;
  if (usual.bytes > 0) usual.overlap_ratio = overlapped / usual.bytes;
  if (wall_ms > 0) usual.wait_ratio = usual.waited_ms / wall_ms;
  return usual;
}

void Communication::on(const CollectiveEvent& event, const RunState& state) {
  if (event.group_size < 2 || event.of_norm) return;
  now_.sharded |= event.kind == CollectiveKind::kReduceScatter;
  if (event.kind == CollectiveKind::kBroadcast) {
    for (const TensorId id : event.tensors) {
      const TensorState* tensor = state.tensor(id);
      const bool registered = tensor != nullptr && !tensor->registrations.empty();
      if (registered && tensor->is_buffer) now_.broadcast.insert(id);
    }
  }
  const bool sums = event.kind == CollectiveKind::kAllReduce &&
                    (event.reduce == ReduceKind::kSum || event.reduce == ReduceKind::kAverage);
  if (!sums) return;
  ++now_.calls;
  if (!std::exchange(is_summed_, true)) ++now_.summed_backwards;
  now_.bytes += event.bytes;
  if (in_backward_) now_.backward_bytes += event.bytes;
  call_bytes_.push_back(static_cast<double>(event.bytes));
}

void Communication::on(const CollectiveEndEvent& event) {
  if (!event.in_backward) now_.waited_ms += event.waited_ms;
}

void Communication::on(const OptimizerStepEvent& event, const RunState& state) {
  const OptimizerState& optimizer = state.optimizers().at(event.optimizer);
  now_.searches |= optimizer.of_libtorch && optimizer.type == "LBFGS";
  for (const auto& group : optimizer.groups) {
    for (const OptimizerMember& member : group) {
      const TensorState* tensor = state.tensor(member.tensor);
      if (tensor == nullptr || tensor->gradient_cycle != event.at.cycle) continue;
      now_.gradient_bytes += bytes_of(tensor->info);
    }
  }
}

CycleTraffic Communication::on(const CycleEndEvent& event) {
  now_.wall_ms = event.wall_ms;
  now_.median_bytes = median(std::exchange(call_bytes_, {}));
  return std::exchange(now_, {});
}

}  // namespace ddpscope
