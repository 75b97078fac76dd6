#pragma once

#include "hooks/collective_watch.h"

namespace ddpscope {

struct BackendGroup;

inline constexpr int kNowhere = -1;

/// Which arguments of a call are what.
struct CallPlaces {
  int values = 0;
  int received = 0;  ///< what stands for the values where they are replaced
  int count = 0;
  int type = 0;
  int op = kNowhere;
  int root = kNowhere;
  int comm = 0;
};

/// Runs a call of a library below LibTorch as one that is noted. Its end is that of the function.
template <class Original, class Failed>
int run_noted(BackendGroup* group, const CallFacts& facts, const Original& original,
              const Failed& failed) {
  if (group == nullptr) return original();
  LoggedCall call(*group, facts);
  const int result = original();
  call.returned(nullptr);
  call.ended(failed(result));
  return result;
}

/// The calls of NCCL and of MPI that the program itself makes, where it is linked with them.
void install_nccl_calls() noexcept;
void install_mpi_calls() noexcept;

/// The handle of an object of MPI that lies there, in a list of them; as many bytes as handles of
/// the library in use have.
const void* mpi_handle_at(const void* place, std::size_t index = 0);
/// The functions that tell the end of what MPI has started.
void install_mpi_requests() noexcept;

}  // namespace ddpscope
