#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <ddpscope/export.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace c10d {
class Backend;
class ProcessGroup;
}  // namespace c10d
struct ncclComm;

namespace ddpscope {
inline namespace api0 {

/// One group of ranks that sum small records. One ordering domain: every rank issues the same
/// operations in the same order. Not to be used by two threads at once.
class DDPSCOPE_API Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator();

  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// The group as messages name it.
  virtual std::string name() const;
  /// Replaces `record` on every rank by the sum over the group.
  /// @param record  Double, 1-D, contiguous, of the same length on every rank; CPU, or CUDA ordered
  ///                on the current stream. Host-only backends stage CUDA records and then wait.
  /// @throws c10::Error on timeout or loss of a rank; the text names the group and the operation.
  virtual void all_reduce_sum(at::Tensor& record) = 0;
  /// Row r of the result is the record of rank r: Double, (size, length), on the record's device.
  /// The default sums a matrix that is zero but for the own row, which is exact.
  virtual at::Tensor all_gather(const at::Tensor& record);
  /// Whether all_reduce_sum may be recorded in a CUDA graph.
  virtual bool is_capturable() const noexcept;
  /// The number of this call of a layer over this group, from 1. Operators count with it, so that
  /// ranks that exchange different calls are told apart.
  std::int64_t count_call(const std::string& layer);

 private:
  std::map<std::string, std::int64_t> calls_;
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// All of them: @throws c10::Error if there is no group, or if rank or size are out of range.

/// Uses a c10d group of any kind.
DDPSCOPE_API CommunicatorPtr make_communicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group);
/// Uses a c10d backend, such as c10d::ProcessGroupGloo.
DDPSCOPE_API CommunicatorPtr make_communicator(const c10::intrusive_ptr<c10d::Backend>& backend);
template <class Backend>
requires(!std::same_as<Backend, c10d::ProcessGroup> && !std::same_as<Backend, c10d::Backend> &&
         std::derived_from<Backend, c10d::Backend>) CommunicatorPtr
    make_communicator(const c10::intrusive_ptr<Backend>& backend) {
  return make_communicator(c10::intrusive_ptr<c10d::Backend>(backend));
}
/// Uses an NCCL communicator that the caller owns and keeps alive; records must be on its device.
/// NCCL is looked up among the libraries of the process, not linked.
/// @throws c10::Error if NCCL is not loaded or does not know the communicator.
DDPSCOPE_API CommunicatorPtr make_nccl_communicator(ncclComm* communicator);
/// Uses a blocking sum over host memory, for example around MPI_Allreduce.
/// @param sum  Called as sum(data, count); must leave the group's sum in data[0, count). What it
///             throws reaches the caller of the operator.
DDPSCOPE_API CommunicatorPtr make_host_communicator(int rank, int size,
                                                    std::function<void(double*, std::size_t)> sum);
/// Uses any stream-ordered sum of a tensor, which it replaces by the sum over the group.
DDPSCOPE_API CommunicatorPtr make_communicator(int rank, int size,
                                               std::function<void(at::Tensor&)> sum);

/// Lets `torch.ops.ddpscope.sync_batch_norm` find the communicator by this name, before a c10d
/// group that is registered under the same; null forgets it. Thread: any.
/// @throws c10::Error if the name is empty.
DDPSCOPE_API void register_communicator(const std::string& name,
                                        const CommunicatorPtr& communicator);

}  // namespace api0
}  // namespace ddpscope
