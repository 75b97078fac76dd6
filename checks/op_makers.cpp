// Which operator of the step made a tensor.
#include <algorithm>

#include "checks/op_trace.h"

namespace ddpscope {
namespace {
bool reads(const OpTrace::Record& record, TensorId id) {
  return std::ranges::find(record.inputs, id) != record.inputs.end();
}

bool returns(const OpTrace::Record& record, TensorId id) {
  return std::ranges::find(record.outputs, id, &OpTrace::Output::id) != record.outputs.end();
}

// As to() returns its input where there is nothing to change.
bool passes_on(const OpTrace::Record& record, TensorId id) {
  return reads(record, id) && !record.op.ends_with('_');
}
}  // namespace

const OpTrace::Record* OpTrace::record_of(TensorId id) const {
  const auto made = producer_.find(id);
  return made == producer_.end() ? nullptr : maker_up_to(made->second + 1, id);
}

const OpTrace::Record* OpTrace::record_before(const Record& writer, TensorId id) const {
  return maker_up_to(static_cast<std::size_t>(&writer - records_.data()), id);
}

// Of operators around one another, which end one after the other, the innermost.
const OpTrace::Record* OpTrace::maker_up_to(std::size_t end, TensorId id) const {
  const Record* made = nullptr;
  for (std::size_t number = end; number-- > 0;) {
    const Record& record = records_[number];
    if (!returns(record, id)) {
      if (made != nullptr) break;
      continue;
    }
    if (passes_on(record, id)) continue;
    made = &record;
    if (reads(record, id)) break;
  }
  return made;
}

std::optional<OpTrace::Maker> OpTrace::maker_of(TensorId id) const {
  const Record* made = record_of(id);
  if (made == nullptr) return std::nullopt;
  return Maker{made->op, made->path};
}

}  // namespace ddpscope
