#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "ops/communicator/communicator.h"

namespace ddpscope {
namespace {

// One tensor per call: a list means copies on several devices to some backends. Not asynchronous,
// so that NCCL works on the current stream.
template <class Group>
void all_reduce(Group& group, const at::Tensor& record) {
  std::vector<at::Tensor> one = {record};
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  const auto work = group.allreduce(one, options);
  if (work) work->wait();
}

std::string described(const std::string& backend, const std::string& name) {
  return name.empty() ? "a group of " + backend : backend + " group \"" + name + "\"";
}

class ProcessGroupCommunicator final : public Communicator {
 public:
  explicit ProcessGroupCommunicator(c10::intrusive_ptr<c10d::ProcessGroup> group)
      : group_(std::move(group)) {}
  int rank() const noexcept override { return group_->getRank(); }
  int size() const noexcept override { return group_->getSize(); }
  std::string name() const override {
    return described(group_->getBackendName(), group_->getGroupName());
  }
  void all_reduce_sum(at::Tensor& record) override {
    communicator::run("all_reduce_sum", *this, [&] {
      if (serves(record.device())) {
        all_reduce(*group_, record);
      } else {
        communicator::sum_on_host(record, [&](at::Tensor& host) { all_reduce(*group_, host); });
      }
    });
  }

 private:
  bool serves(const at::Device& device) const {
    const auto devices = group_->getDeviceTypes();
    return device.is_cpu() || std::any_of(devices.begin(), devices.end(), [&](const auto& served) {
             return served.type() == device.type();
           });
  }
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

class BackendCommunicator final : public Communicator {
 public:
  explicit BackendCommunicator(c10::intrusive_ptr<c10d::Backend> backend)
      : backend_(std::move(backend)) {}
  int rank() const noexcept override { return backend_->getRank(); }
  int size() const noexcept override { return backend_->getSize(); }
  std::string name() const override {
    return described(backend_->getBackendName(), backend_->getGroupUid());
  }
  void all_reduce_sum(at::Tensor& record) override {
    communicator::run("all_reduce_sum", *this, [&] {
      if (backend_->getBackendName() == "nccl") {
        TORCH_CHECK(!record.is_cpu(), "NCCL sums on GPUs, but the tensors are on the CPU");
        all_reduce(*backend_, record);
      } else {
        communicator::sum_on_host(record, [&](at::Tensor& host) { all_reduce(*backend_, host); });
      }
    });
  }

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace

inline namespace api0 {

CommunicatorPtr make_communicator(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  TORCH_CHECK(group, "make_communicator: the process group is null");
  return std::make_shared<ProcessGroupCommunicator>(group);
}

CommunicatorPtr make_communicator(const c10::intrusive_ptr<c10d::Backend>& backend) {
  TORCH_CHECK(backend, "make_communicator: the backend is null");
  return std::make_shared<BackendCommunicator>(backend);
}

}  // namespace api0
}  // namespace ddpscope
