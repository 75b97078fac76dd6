#include "tests/ops/thread_group.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <stdexcept>

namespace ddpscope::test {
namespace {
constexpr std::chrono::seconds kTimeout{20};
}

CommunicatorPtr ThreadGroup::communicator(int rank) {
  return make_communicator(
      rank, static_cast<int>(records_.size()),
      [self = shared_from_this(), rank](at::Tensor& record) { self->sum(rank, record); });
}

void ThreadGroup::leave() {
  const std::lock_guard lock(mutex_);
  has_lost_ = true;
  changed_.notify_all();
}

void ThreadGroup::sum(int rank, at::Tensor& record) {
  std::unique_lock lock(mutex_);
  const std::int64_t round = round_;
  records_[static_cast<std::size_t>(rank)] = record.clone();
  if (++arrived_ == records_.size()) add_up();
  changed_.wait_for(lock, kTimeout, [&] { return round_ > round || has_lost_; });
  if (round_ == round) throw std::runtime_error(has_lost_ ? "another rank has left" : "timeout");
  if (!total_.defined()) throw std::runtime_error("the records differ in length");
  record.copy_(total_);
}

void ThreadGroup::add_up() {
  total_ = records_[0].clone();
  for (std::size_t rank = 1; rank < records_.size(); ++rank) {
    if (records_[rank].numel() != total_.numel()) {
      total_ = at::Tensor();
      break;
    }
    total_.add_(records_[rank]);
  }
  arrived_ = 0;
  ++round_;
  changed_.notify_all();
}

std::vector<std::string> try_on_ranks(int ranks,
                                      const std::function<void(int, CommunicatorPtr)>& program) {
  const auto group = ThreadGroup::make(ranks);
  std::vector<std::string> faults(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        program(rank, group->communicator(rank));
      } catch (const std::exception& error) {
        faults[static_cast<std::size_t>(rank)] = error.what();
        group->leave();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return faults;
}

}  // namespace ddpscope::test
