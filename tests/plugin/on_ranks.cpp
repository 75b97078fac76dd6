#include "tests/plugin/on_ranks.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

namespace ddpscope::test {
namespace {
constexpr std::chrono::seconds kTimeout{30};

int run_rank(const Place& place, const std::function<int(const Place&)>& program) {
  setenv("RANK", std::to_string(place.rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(place.ranks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);  // what makes them one run
  at::set_num_threads(1);
  torch::manual_seed(7);
  return program(place);
}
}  // namespace

// Each test has a loopback address of its own: with one for all, Gloo sometimes meets a port that
// another test had a moment before.
Group Place::group(StorePointer over) const {
  auto options = c10d::ProcessGroupGloo::Options::create(kTimeout);
  const pid_t test = getppid();
  const std::string address =
      "127." + std::to_string(1 + test / 254 % 254) + "." + std::to_string(1 + test % 254) + ".1";
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(over ? over : store, rank, ranks, options);
}

Ranks::Ranks(int count, const std::function<int(const Place&)>& program) {
  const std::string file = report_dir() + ".store";
  unlink(file.c_str());
  std::fflush(nullptr);
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const StorePointer store = c10::make_intrusive<c10d::FileStore>(file, count);
      std::exit(run_rank({.rank = rank, .ranks = count, .store = store}, program));
    }
    children_.push_back(child);
  }
}

Ranks::~Ranks() {
  for (std::size_t i = 0; i < children_.size(); ++i) kill(static_cast<int>(i));
  exit_codes();
  unlink((report_dir() + ".store").c_str());
}

void Ranks::kill(int rank, int signal) {
  const pid_t child = children_.at(static_cast<std::size_t>(rank));
  if (child > 0) ::kill(child, signal);
}

std::vector<int> Ranks::exit_codes(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<int> codes;
  for (pid_t& child : children_) {
    int status = 0;
    int code = -1;
    while (child > 0) {
      if (waitpid(child, &status, WNOHANG) == child) {
        if (WIFEXITED(status)) code = WEXITSTATUS(status);
        child = 0;
      } else if (std::chrono::steady_clock::now() > end) {
        ::kill(child, SIGKILL);
        waitpid(child, &status, 0);
        child = 0;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    codes.push_back(code);
  }
  return codes;
}

void all_reduce(const Group& group, at::Tensor tensor) {
  std::vector<at::Tensor> one = {std::move(tensor)};
  group->allreduce(one)->wait();
}

void broadcast(const Group& group, at::Tensor tensor, int root) {
  std::vector<at::Tensor> one = {std::move(tensor)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  group->broadcast(one, options)->wait();
}

}  // namespace ddpscope::test
