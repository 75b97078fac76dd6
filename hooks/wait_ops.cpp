#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/masked_select_ops.h>
#include <ATen/ops/nonzero_ops.h>

#include <chrono>

#include "hooks/collective_watch.h"
#include "hooks/device_waits.h"
#include "hooks/inferred_calls.h"
#include "hooks/interposed.h"
#include "hooks/pending_gradients.h"

namespace ddpscope {
namespace {
/// Operators that return what their first argument holds.
template <class Op, WaitIn kOp, class Function = typename Op::schema>
struct Reads;
template <class Op, WaitIn kOp, class Result>
struct Reads<Op, kOp, Result(const at::Tensor&)> {
  using Hooked = Interposed<Reads, Result(const at::Tensor&)>;
  static Result call(const at::Tensor& tensor) {
    const WaitScope scope(kOp, read_of(tensor));
    return Hooked::original(tensor);
  }
};
using Item = Reads<at::_ops::_local_scalar_dense, WaitIn::kItem>;
using Nonzero = Reads<at::_ops::nonzero, WaitIn::kNonzero>;

struct MaskedSelect {
  using Hooked = Interposed<MaskedSelect, at::_ops::masked_select::schema>;
  static at::Tensor call(const at::Tensor& tensor, const at::Tensor& mask) {
    const WaitScope scope(WaitIn::kMaskedSelect, read_of(mask));
    const auto run = [&] { return Hooked::original(tensor, mask); };
    return run_operator(at::_ops::masked_select::name, run, tensor, mask);
  }
};

template <class Op>
bool install(const char* symbol) noexcept {
  return Op::Hooked::install_in(operator_hooks(), symbol, Op::call);
}

// Without the headers of CUDA and of c10d, which not every LibTorch has.
struct Stream {
  using Hooked = Interposed<Stream, void(const void*)>;
  static void call(const void* self) {
    const WaitScope scope(WaitIn::kStream, Wait::kForDevice);
    Hooked::original(self);
  }
};

struct Device {
  using Hooked = Interposed<Device, void()>;
  static void call() {
    const WaitScope scope(WaitIn::kDevice, Wait::kForDevice);
    Hooked::original();
  }
};

struct Work {
  using Hooked = Interposed<Work, bool(void*, std::chrono::milliseconds)>;
  static bool call(void* self, std::chrono::milliseconds timeout) {
    const WaitScope scope(WaitIn::kWork,
                          DeviceWaits::is_device_used() ? Wait::kForDevice : Wait::kNone);
    const CallWait wait(self);
    return Hooked::original(self, timeout);
  }
};

/// The program asks whether a call has ended; `kClass` makes one type per class.
template <int kClass>
struct WorkAsked {
  using Hooked = Interposed<WorkAsked, bool(void*)>;
  static bool call(void* self) {
    const bool ended = Hooked::original(self);
    if (ended) PendingGradients::told_otherwise(self);
    return ended;
  }
};

/// It takes the future, whose own functions stand in the program.
template <int kClass>
struct WorkFuture {
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  using Hooked = Interposed<WorkFuture, Future(void*)>;
  static Future call(void* self) {
    PendingGradients::told_otherwise(self);
    return Hooked::original(self);
  }
};

// Of libraries that a program may lack: without them it has no such waits.
void install_optional() noexcept {
  Stream::Hooked::install("_ZNK3c104cuda10CUDAStream11synchronizeEv", Stream::call);
  Device::Hooked::install("_ZN3c104cuda18device_synchronizeEv", Device::call);
  Work::Hooked::install("_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE",
                        Work::call);
  WorkAsked<0>::Hooked::install("_ZN4c10d4Work11isCompletedEv", WorkAsked<0>::call);
  WorkFuture<0>::Hooked::install("_ZN4c10d16ProcessGroupGloo9AsyncWork9getFutureEv",
                                 WorkFuture<0>::call);
  WorkAsked<1>::Hooked::install("_ZN4c10d16ProcessGroupNCCL8WorkNCCL11isCompletedEv",
                                WorkAsked<1>::call);
  WorkFuture<1>::Hooked::install("_ZN4c10d16ProcessGroupNCCL8WorkNCCL9getFutureEv",
                                 WorkFuture<1>::call);
  Gate::take_refused();
}
}  // namespace

bool install_wait_ops() noexcept {
  install_optional();
  bool live = install<Item>("_ZN2at4_ops19_local_scalar_dense4callERKNS_6TensorE");
  live &= install<Nonzero>("_ZN2at4_ops7nonzero4callERKNS_6TensorE");
  live &= install<MaskedSelect>("_ZN2at4_ops13masked_select4callERKNS_6TensorES4_");
  return live;
}

}  // namespace ddpscope
