#include "exchange/written_buffers.h"

#include <algorithm>
#include <set>

#include "exchange/tensor_compare.h"
#include "model/step_event.h"

namespace ddpscope {
namespace {
/// The fingerprint of a tensor in that very step; 0: not known.
std::uint64_t word_at(const std::vector<Blob>& blobs, const DifferingTensor& tensor,
                      std::int64_t step) {
  for (const auto& [number, list] : lists_at(blobs, std::max<std::int64_t>(step, 0))) {
    if (list.model != tensor.model) continue;
    const Blob* told = latest_blob(blobs, BlobKind::kFingerprints, number, step);
    if (told == nullptr || told->step != step) return 0;
    const auto order = in_told_order(list, /*with_buffers=*/true);
    const auto found = std::ranges::find(order, tensor.path, &ListedTensor::path);
    const auto place = static_cast<std::size_t>(found - order.begin());
    if (found == order.end() || told->bytes.size() != order.size() * 8) return 0;
    return fingerprint_in(told->bytes, place);
  }
  return 0;
}

// A batch norm writes its statistics after they were read: those were set by hand.
bool is_of_batch_norm(const std::vector<Blob>& blobs, const DifferingTensor& tensor) {
  const std::string module = tensor.path.substr(0, tensor.path.rfind('.') + 1);
  for (const auto& [number, list] : lists_at(blobs, 0)) {
    const auto counts = [&module](const ListedTensor& one) {
      return one.path == module + "num_batches_tracked";
    };
    if (list.model == tensor.model && std::ranges::any_of(list.tensors, counts)) return true;
  }
  return false;
}

class Written {
 public:
  Written(const RingList& rings, const ValuesDiffer& values) {
    for (const SideOfLists& side : sides_of_lists(rings, values.sides)) {
      blobs_.push_back(side.ring->blobs());
    }
  }

  bool operator()(const DifferingTensor& tensor) const {
    std::set<std::uint64_t> when_attached;
    for (const auto& blobs : blobs_) {
      if (is_of_batch_norm(blobs, tensor)) return false;
      when_attached.insert(word_at(blobs, tensor, kAtAttach));
      const std::uint64_t at_start = word_at(blobs, tensor, 0);
      if (word_at(blobs, tensor, 2) == at_start) return false;  // step 1 had written it by then
    }
    return when_attached.size() == 1 && !when_attached.contains(0);
  }

 private:
  std::vector<std::vector<Blob>> blobs_;
};
}  // namespace

void leave_out_written(const RingList& rings, ValuesDiffer& values) {
  if (!values.of_buffers || values.step != 0) return;
  std::vector<DifferingTensor> others = values.tensors;
  std::erase_if(others, Written(rings, values));
  if (others.empty()) {
    values.step = values.tensors.empty() ? 0 : 1;
    return;
  }
  values.differing -= std::ssize(values.tensors) - std::ssize(others);
  values.tensors = std::move(others);
}

}  // namespace ddpscope
