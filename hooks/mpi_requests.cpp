#include <algorithm>
#include <array>
#include <optional>

#include "hooks/interposed.h"
#include "hooks/library_calls.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostRequests = 64;  // of one call; more are not followed

// Note [What a request tells]
// MPI puts MPI_REQUEST_NULL in the place of a request that has ended, in whichever function it says
// so: who reads the handles before and after needs to know nothing else of what the function did.

/// The handles of a list before the library looks at it.
class Requests {
 public:
  Requests(const void* list, int count)
      : list_(list), count_(std::min(static_cast<std::size_t>(std::max(count, 0)), kMostRequests)) {
    for (std::size_t i = 0; i < count_; ++i) handles_[i] = mpi_handle_at(list, i);
  }
  const void* const* begin() const { return handles_.data(); }
  const void* const* end() const { return handles_.data() + count_; }

  /// Tells the ends of those that are gone.
  void tell_ended() const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (mpi_handle_at(list_, i) == handles_[i]) continue;
      const CallWait ended(handles_[i]);
    }
  }

 private:
  const void* list_;
  std::size_t count_;
  std::array<const void*, kMostRequests> handles_;
};

struct MpiWait {
  using Hooked = Interposed<MpiWait, int(void*, void*)>;
  static int call(void* request, void* status) {
    const CallWait wait(mpi_handle_at(request));
    return Hooked::original(request, status);
  }
};

struct MpiWaitAll {
  using Hooked = Interposed<MpiWaitAll, int(int, void*, void*)>;
  static int call(int count, void* list, void* statuses) {
    const Requests requests(list, count);
    std::array<std::optional<CallWait>, kMostRequests> waits;
    std::size_t used = 0;
    for (const void* const request : requests) waits[used++].emplace(request);
    return Hooked::original(count, list, statuses);
  }
};

/// Those that end some of a list, or none: `kFunction` makes one type per function.
template <int kFunction, class... Told>
struct MpiSome {
  using Hooked = Interposed<MpiSome, int(int, void*, Told...)>;
  static int call(int count, void* list, Told... told) {
    const Requests requests(list, count);
    const int result = Hooked::original(count, list, told...);
    requests.tell_ended();
    return result;
  }
  static void install(const char* name) { Hooked::install(name, call); }
};

struct MpiTest {
  using Hooked = Interposed<MpiTest, int(void*, int*, void*)>;
  static int call(void* request, int* flag, void* status) {
    const Requests one(request, 1);
    const int result = Hooked::original(request, flag, status);
    one.tell_ended();
    return result;
  }
};
}  // namespace

void install_mpi_requests() noexcept {
  MpiWait::Hooked::install("MPI_Wait", MpiWait::call);
  MpiWaitAll::Hooked::install("MPI_Waitall", MpiWaitAll::call);
  MpiTest::Hooked::install("MPI_Test", MpiTest::call);
  MpiSome<0, int*, void*>::install("MPI_Waitany");
  MpiSome<1, int*, int*, void*>::install("MPI_Waitsome");
  MpiSome<2, int*, void*>::install("MPI_Testall");
  MpiSome<3, int*, int*, void*>::install("MPI_Testany");
  MpiSome<4, int*, int*, void*>::install("MPI_Testsome");
}

}  // namespace ddpscope
