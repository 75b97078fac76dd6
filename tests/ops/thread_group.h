#pragma once

#include <ddpscope/ops/communicator.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddpscope::test {

/// Ranks that are threads of this process. Sums are made in the order of ranks.
class ThreadGroup : public std::enable_shared_from_this<ThreadGroup> {
 public:
  static std::shared_ptr<ThreadGroup> make(int size) {
    return std::shared_ptr<ThreadGroup>(new ThreadGroup(size));
  }
  CommunicatorPtr communicator(int rank);
  /// A rank that fails must not let the others wait.
  void leave();

 private:
  explicit ThreadGroup(int size) : records_(static_cast<std::size_t>(size)) {}
  void sum(int rank, at::Tensor& record);
  void add_up();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<at::Tensor> records_;
  at::Tensor total_;
  bool has_lost_ = false;
  std::size_t arrived_ = 0;
  std::int64_t round_ = 0;
};

/// Runs `program(rank, communicator)` on so many threads with one compute thread each; what the
/// ranks threw, "" for those that did not.
std::vector<std::string> try_on_ranks(int ranks,
                                      const std::function<void(int, CommunicatorPtr)>& program);

/// The same of ranks of which none may throw.
template <class Program>
auto on_ranks(int ranks, const Program& program) {
  std::vector<decltype(program(0, CommunicatorPtr()))> results(static_cast<std::size_t>(ranks));
  const auto faults = try_on_ranks(ranks, [&](int rank, const CommunicatorPtr& group) {
    results[static_cast<std::size_t>(rank)] = program(rank, group);
  });
  for (const std::string& fault : faults) {
    if (!fault.empty()) throw std::runtime_error(fault);
  }
  return results;
}

}  // namespace ddpscope::test
