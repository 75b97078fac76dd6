#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "tests/ops/thread_group.h"
#include "tests/support/catch.h"

namespace ddpscope::test::communicator_test {
namespace {
using Catch::Matchers::Contains;
}

TEST_CASE("all records reach all ranks by a sum", "[norm]") {
  const auto found = on_ranks(3, [](int rank, const CommunicatorPtr& group) {
    return group->all_gather(torch::tensor({rank + 0.1, -rank * 1e300}, at::kDouble));
  });
  const auto expected = torch::tensor({{0.1, -0.0}, {1.1, -1e300}, {2.1, -2e300}}, at::kDouble);
  for (const at::Tensor& all : found) CHECK(torch::equal(all, expected));
}

TEST_CASE("a function over host memory sums in place", "[norm]") {
  const auto group = make_host_communicator(1, 4, [](double* data, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) data[i] *= 4;
  });
  auto record = torch::tensor({1.0, 2.0}, at::kDouble);
  group->all_reduce_sum(record);
  CHECK(torch::equal(record, torch::tensor({4.0, 8.0}, at::kDouble)));
  CHECK(group->rank() == 1);
  CHECK(group->size() == 4);
  CHECK(!group->is_capturable());
}

TEST_CASE("calls are counted for each layer", "[norm]") {
  const auto group = make_communicator(0, 1, [](at::Tensor&) {});
  CHECK(group->count_call("a") == 1);
  CHECK(group->count_call("b") == 1);
  CHECK(group->count_call("a") == 2);
}

TEST_CASE("a communicator of nothing is refused", "[norm]") {
  CHECK_THROWS_WITH(make_communicator(2, 2, [](at::Tensor&) {}),
                    Contains("rank must be in [0, size), but rank is 2 and size 2"));
  CHECK_THROWS_WITH(make_host_communicator(0, 1, {}), Contains("the function that sums is empty"));
  CHECK_THROWS_WITH(make_communicator(c10::intrusive_ptr<c10d::ProcessGroup>()),
                    Contains("the process group is null"));
  CHECK_THROWS_WITH(make_communicator(c10::intrusive_ptr<c10d::Backend>()),
                    Contains("the backend is null"));
  CHECK_THROWS_WITH(make_nccl_communicator(nullptr), Contains("the communicator is null"));
}

TEST_CASE("NCCL that is not loaded is named with what to do", "[norm]") {
  int no_communicator = 0;
  CHECK_THROWS_WITH(make_nccl_communicator(reinterpret_cast<ncclComm*>(&no_communicator)),
                    Contains("no library of this process has ncclCommCount; link libnccl.so.2"));
}

}  // namespace ddpscope::test::communicator_test
