#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "hooks/backend_groups.h"
#include "hooks/collective_watch.h"
#include "hooks/interposed.h"
#include "hooks/library_calls.h"

namespace ddpscope {
namespace {
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr char kTail[] =
    "13intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_type";

/// Constructors of the two backends; one takes the store by value, which is by address, too.
template <int kWhich>
struct Born {
  using Hooked = Interposed<Born, void(c10d::Backend*, const StorePointer*, int, int, const void*)>;
  static void call(c10d::Backend* self, const StorePointer* store, int rank, int size,
                   const void* options) {
    std::string store_name;
    try {
      store_name = name_of(store->get());
    } catch (...) {  // a store of the program's own, or no memory: the group has no name
    }
    Hooked::original(self, store, rank, size, options);
    try {
      backend_groups().born(*self, store_name);
    } catch (...) {  // the group is met at its first call
    }
  }
  static void install(const std::string& symbol) noexcept { Hooked::install(symbol.c_str(), call); }
};
}  // namespace

void watch_group_births() noexcept {
  const std::string gloo = "_ZN4c10d16ProcessGroupGloo";
  const std::string nccl = "_ZN4c10d16ProcessGroupNCCL";
  const std::string tail = std::string(kTail);
  Born<1>::install(gloo + "C1ERKN3c10" + tail + "IS3_EEEEiiNS2_INS0_7OptionsENS5_ISA_EEEE");
  Born<2>::install(gloo + "C2ERKN3c10" + tail + "IS3_EEEEiiNS2_INS0_7OptionsENS5_ISA_EEEE");
  Born<3>::install(nccl + "C1EN3c10" + tail + "IS3_EEEEiiNS2_INS0_7OptionsENS5_IS8_EEEE");
  Born<4>::install(nccl + "C2EN3c10" + tail + "IS3_EEEEiiNS2_INS0_7OptionsENS5_IS8_EEEE");
  install_nccl_calls();
  install_mpi_calls();
  Gate::take_refused();
}

}  // namespace ddpscope
