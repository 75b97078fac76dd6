#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "tests/support/torch_test.h"

namespace ddpscope::test {

using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

/// This process among those of a run.
struct Place {
  int rank = 0;
  int ranks = 1;
  StorePointer store;

  /// A group of all ranks over Gloo.
  Group group(StorePointer over = {}) const;
};

/// A program on several ranks, each a forked child that reports to `report_dir()`. Before anything
/// is attached here.
class Ranks {
 public:
  Ranks(int count, const std::function<int(const Place&)>& program);
  /// Kills those that still run.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// The exit codes, once all have ended; -1 for one that a signal ended, or that took too long.
  std::vector<int> exit_codes(std::chrono::seconds limit = std::chrono::seconds(60));
  void kill(int rank, int signal = SIGKILL);

 private:
  std::vector<pid_t> children_;
};

inline std::string ring_path(int rank) {
  return report_dir() + "/rank-" + std::to_string(rank) + ".ring";
}

void all_reduce(const Group& group, at::Tensor tensor);
void broadcast(const Group& group, at::Tensor tensor, int root = 0);

}  // namespace ddpscope::test
