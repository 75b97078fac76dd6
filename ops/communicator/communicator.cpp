#include "ops/communicator/communicator.h"

#include <ATen/ops/zeros.h>

namespace ddpscope {
inline namespace api0 {

Communicator::~Communicator() = default;

std::string Communicator::name() const { return "a group of ranks"; }

at::Tensor Communicator::all_gather(const at::Tensor& record) {
  at::Tensor all = at::zeros({size() * record.numel()}, record.options());
  all.narrow(0, rank() * record.numel(), record.numel()).copy_(record);
  all_reduce_sum(all);
  return all.view({size(), record.numel()});
}

bool Communicator::is_capturable() const noexcept { return false; }

std::int64_t Communicator::count_call(const std::string& layer) { return ++calls_[layer]; }

}  // namespace api0

namespace communicator {

void check_place(int rank, int size) {
  TORCH_CHECK(size >= 1 && rank >= 0 && rank < size,
              "make_communicator: rank must be in [0, size), but rank is ", rank, " and size ",
              size);
}

}  // namespace communicator
}  // namespace ddpscope
