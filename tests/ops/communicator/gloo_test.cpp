#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tests/ops/batch_norm/norm_case.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::gloo_test {
namespace {
using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

/// Runs `program(rank, group)` in so many processes; their results in the order of ranks.
template <class Program>
std::vector<int> in_processes(int ranks, std::chrono::milliseconds timeout,
                              const Program& program) {
  const TemporaryDir dir;
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      at::set_num_threads(1);
      int result = 99;
      try {
        auto options = c10d::ProcessGroupGloo::Options::create(timeout);
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
        const auto store = c10::make_intrusive<c10d::FileStore>(dir.path() + "/store", ranks);
        const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, ranks, options);
        result = program(rank, group);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      std::fflush(nullptr);
      _exit(result);
    }
    children.push_back(child);
  }
  std::vector<int> results;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    results.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return results;
}

bool is_near(const at::Tensor& found, const at::Tensor& expected, double limit) {
  return error_of(found, expected) < limit;
}

/// 0 where rank `rank` gets what one batch of all ranks gives.
int compare(const NormCase& norm, int rank, const CommunicatorPtr& group) {
  const auto index = static_cast<std::size_t>(rank);
  const auto expected = oracle_of(norm)[index];
  const auto x = norm.inputs[index].detach().requires_grad_();
  const auto mean = torch::zeros({x.size(1)}), variance = torch::ones({x.size(1)});
  const auto y = sync_batch_norm(x, mean, variance,
                                 SyncBatchNormFuncOptions()
                                     .weight(norm.weight)
                                     .bias(norm.bias)
                                     .training(true)
                                     .exchange(norm.exchange)
                                     .communicator(group));
  y.backward(norm.gradients[index]);
  if (!is_near(y, expected.y, 2e-6)) return 1;
  if (!is_near(x.grad(), expected.dx, 1e-5)) return 2;
  if (!is_near(mean, expected.running_mean, 1e-6)) return 3;
  return is_near(variance, expected.running_var, 1e-6) ? 0 : 4;
}

}  // namespace

TEST_CASE("processes over Gloo agree with one batch", "[.gloo]") {
  const auto samples =
      GENERATE(std::vector<std::int64_t>{3, 5}, std::vector<std::int64_t>{2, 0, 6});
  const auto as_process_group = GENERATE(false, true);
  const auto channels = GENERATE(33, 1500);
  torch::manual_seed(1);
  auto norm = make_case({.samples = samples, .shape = {channels, 5, 5}});
  const int ranks = static_cast<int>(samples.size());
  const auto results =
      in_processes(ranks, std::chrono::seconds(30), [&](int rank, const Gloo& gloo) {
        CommunicatorPtr group = make_communicator(gloo);
        if (as_process_group) {
          const auto wrapped = c10::make_intrusive<c10d::ProcessGroup>(rank, ranks);
          wrapped->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
          wrapped->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
          wrapped->setGroupName("all");
          group = make_communicator(wrapped);
        }
        for (const auto mode : {ExchangeMode::kSum, ExchangeMode::kGather}) {
          norm.exchange = mode;
          const int result = compare(norm, rank, group);
          if (result != 0) return result;
        }
        return 0;
      });
  CHECK(results == std::vector<int>(samples.size(), 0));
}

TEST_CASE("layers of other channels end in an error of both ranks, not in their end", "[.gloo]") {
  struct Pair {
    std::int64_t channels[2];
    at::ScalarType dtypes[2] = {at::kFloat, at::kFloat};
  };
  const auto pair = GENERATE(Pair{{3, 64}}, Pair{{1500, 3}}, Pair{{2000, 1500}},
                             Pair{{8, 8}, {at::kFloat, at::kDouble}},
                             Pair{{1500, 1500}, {at::kDouble, at::kFloat}});
  const auto results = in_processes(2, std::chrono::seconds(30), [&](int rank, const Gloo& gloo) {
    const auto x = torch::randn({4, pair.channels[rank]}, pair.dtypes[rank]);
    const auto options = SyncBatchNormFuncOptions()
                             .training(true)
                             .communicator(make_communicator(gloo))
                             .name("norm");
    try {
      sync_batch_norm(x, {}, {}, options);
    } catch (const c10::Error& error) {
      const std::string said = error.what();
      const auto own = "call 1, forward, with " + std::to_string(pair.channels[rank]) + " channels";
      return said.find(own) == std::string::npos ? 1 : 0;
    }
    return 2;
  });
  CHECK(results == std::vector<int>{0, 0});
}

TEST_CASE("a backward over Gloo beside a forward of another layer is told", "[.gloo]") {
  const auto results = in_processes(2, std::chrono::seconds(30), [](int rank, const Gloo& gloo) {
    const auto group = make_communicator(gloo);
    const auto norm = [&](const at::Tensor& x, const char* layer) {
      return sync_batch_norm(
          x, {}, {}, SyncBatchNormFuncOptions().training(true).communicator(group).name(layer));
    };
    const auto y = norm(torch::randn({4, 3}).requires_grad_(), "first");
    try {
      if (rank == 0) {
        y.sum().backward();
      } else {
        norm(torch::randn({4, 7}), "second");
      }
    } catch (const c10::Error& error) {
      const std::string said = error.what();
      const char* own = rank == 0 ? "first, call 1, backward" : "second, call 1, forward";
      return said.find(own) == std::string::npos ? 1 : 0;
    }
    return 2;
  });
  CHECK(results == std::vector<int>{0, 0});
}

TEST_CASE("ranks over Gloo get the same bits", "[.gloo]") {
  const TemporaryDir dir;
  const auto results = in_processes(3, std::chrono::seconds(30), [&](int rank, const Gloo& gloo) {
    torch::manual_seed(static_cast<std::uint64_t>(rank) + 1);
    const auto mean = torch::zeros({100}), variance = torch::ones({100});
    const auto x = torch::randn({4 + rank, 100, 3});
    sync_batch_norm(
        x, mean, variance,
        SyncBatchNormFuncOptions().training(true).communicator(make_communicator(gloo)));
    torch::save({mean, variance}, dir.path() + "/" + std::to_string(rank));
    return 0;
  });
  REQUIRE(results == std::vector<int>(3, 0));
  std::vector<at::Tensor> first, other;
  torch::load(first, dir.path() + "/0");
  for (const char* name : {"/1", "/2"}) {
    torch::load(other, dir.path() + name);
    CHECK(same_bits(other[0], first[0]));
    CHECK(same_bits(other[1], first[1]));
  }
}

TEST_CASE("a layer that another rank skips ends in a timeout that names it", "[.gloo]") {
  const auto results =
      in_processes(2, std::chrono::milliseconds(1500), [&](int rank, const Gloo& gloo) {
        const auto group = make_communicator(gloo);
        const auto norm = [&](const char* layer) {
          sync_batch_norm(
              torch::randn({4, 3}), {}, {},
              SyncBatchNormFuncOptions().training(true).communicator(group).name(layer));
        };
        norm("first");
        if (rank == 1) {
          sleep(3);  // Gloo tells a lost rank apart from a silent one
          return 0;
        }
        try {
          norm("second");
        } catch (const c10::Error& error) {
          const std::string said = error.what();
          std::fprintf(stderr, "%s\n", said.substr(0, 600).c_str());
          for (const char* part :
               {"all_reduce_sum", "gloo", "rank 0 of 2", "layer second, call 1", "forward"}) {
            if (said.find(part) == std::string::npos) return 2;
          }
          return 0;
        }
        return 1;
      });
  CHECK(results == std::vector<int>{0, 0});
}

}  // namespace ddpscope::test::gloo_test
