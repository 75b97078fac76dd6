#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include "cuda/stream_handle.h"
#include "ops/communicator/communicator.h"

namespace ddpscope {
namespace {

// In words of our own: neither the library nor its header is needed to build.
struct NcclCalls {
  int (*count)(ncclComm*, int*) = nullptr;
  int (*user_rank)(ncclComm*, int*) = nullptr;
  int (*device)(ncclComm*, int*) = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int type, int op, ncclComm*,
                    void* stream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int type, ncclComm*, void* stream) = nullptr;
  const char* (*error_text)(int) = nullptr;
};
constexpr int kDouble = 8;
constexpr int kSum = 0;

template <class Call>
void look_up(void* library, const char* symbol, Call*& call) {
  call = reinterpret_cast<Call*>(dlsym(library, symbol));
  TORCH_CHECK(call != nullptr, "make_nccl_communicator: no library of this process has ", symbol,
              "; link libnccl.so.2, or load it before");
}

const NcclCalls& nccl_calls() {
  static const NcclCalls found = [] {
    // Loaded for others, perhaps out of sight of the program's own symbols.
    void* const loaded = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
    void* const library = loaded != nullptr ? loaded : RTLD_DEFAULT;
    NcclCalls calls;
    look_up(library, "ncclCommCount", calls.count);
    look_up(library, "ncclCommUserRank", calls.user_rank);
    look_up(library, "ncclCommCuDevice", calls.device);
    look_up(library, "ncclAllReduce", calls.all_reduce);
    look_up(library, "ncclAllGather", calls.all_gather);
    look_up(library, "ncclGetErrorString", calls.error_text);
    return calls;
  }();
  return found;
}

void check(int result, const char* call) {
  TORCH_CHECK(result == 0, call, " failed: ", nccl_calls().error_text(result), " (", result, ")");
}

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(ncclComm* communicator) : communicator_(communicator) {
    const NcclCalls& nccl = nccl_calls();
    check(nccl.count(communicator, &size_), "ncclCommCount");
    check(nccl.user_rank(communicator, &rank_), "ncclCommUserRank");
    check(nccl.device(communicator, &device_), "ncclCommCuDevice");
  }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string name() const override { return "an NCCL communicator"; }
  bool is_capturable() const noexcept override { return true; }
  void all_reduce_sum(at::Tensor& record) override {
    communicator::run("all_reduce_sum", *this, [&] {
      void* const stream = stream_of(record);
      void* const data = record.mutable_data_ptr();
      const auto count = static_cast<std::size_t>(record.numel());
      check(nccl_calls().all_reduce(data, data, count, kDouble, kSum, communicator_, stream),
            "ncclAllReduce");
    });
  }
  at::Tensor all_gather(const at::Tensor& record) override {
    at::Tensor all;
    communicator::run("all_gather", *this, [&] {
      void* const stream = stream_of(record);
      all = at::empty({size_, record.numel()}, record.options());
      const auto count = static_cast<std::size_t>(record.numel());
      check(nccl_calls().all_gather(record.const_data_ptr(), all.mutable_data_ptr(), count, kDouble,
                                    communicator_, stream),
            "ncclAllGather");
    });
    return all;
  }

 private:
  /// The current one; nothing waits for what it holds.
  void* stream_of(const at::Tensor& record) const {
    TORCH_CHECK(record.is_cuda() && record.get_device() == device_, "it works on cuda:", device_,
                ", but the tensors are on ", record.device());
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
    return handle_of(guard.getStream(record.device()));
  }

  ncclComm* communicator_;
  int rank_ = 0, size_ = 1, device_ = 0;
};

}  // namespace

inline namespace api0 {

CommunicatorPtr make_nccl_communicator(ncclComm* communicator) {
  TORCH_CHECK(communicator != nullptr, "make_nccl_communicator: the communicator is null");
  return std::make_shared<NcclCommunicator>(communicator);
}

}  // namespace api0
}  // namespace ddpscope
