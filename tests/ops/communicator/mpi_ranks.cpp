// The ranks of an MPI program as the group of a batch norm: each has a part of the batch, of which
// it must make what one process makes of the whole. Started by mpirun.
#include <ddpscope/ops.h>
#include <mpi.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace {

ddpscope::CommunicatorPtr group_of(MPI_Comm ranks) {
  int rank = 0, size = 0;
  MPI_Comm_rank(ranks, &rank);
  MPI_Comm_size(ranks, &size);
  return ddpscope::make_host_communicator(rank, size, [ranks](double* data, std::size_t count) {
    const int code =
        MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, ranks);
    if (code != MPI_SUCCESS) throw std::runtime_error("MPI_Allreduce failed");
  });
}

double difference(const at::Tensor& found, const at::Tensor& expected) {
  return (found - expected).abs().max().item<double>();
}

/// The largest difference of y, of the gradient of x and of the running mean.
double run(const ddpscope::CommunicatorPtr& group, at::ScalarType type) {
  constexpr std::int64_t kRows = 11;
  torch::manual_seed(3);
  const at::Tensor batch = torch::randn({kRows, 5, 4, 4}, type) * 2 + 1;
  const at::Tensor dy = torch::randn_like(batch);
  const torch::nn::BatchNorm2dOptions options(5);
  torch::nn::BatchNorm2d alone(options);
  ddpscope::SyncBatchNorm2d together(options, group, "norm");
  alone->to(type);
  together->to(type);

  const at::Tensor whole = batch.clone().requires_grad_();
  const at::Tensor expected = alone(whole);
  expected.backward(dy);

  // Unequal parts: the last rank has the rest.
  const std::int64_t share = kRows / group->size(), begin = group->rank() * share;
  const std::int64_t rows = group->rank() + 1 == group->size() ? kRows - begin : share;
  const at::Tensor part = batch.narrow(0, begin, rows).clone().requires_grad_();
  const at::Tensor found = together(part);
  found.backward(dy.narrow(0, begin, rows));

  const double of_y = difference(found, expected.narrow(0, begin, rows));
  const double of_dx = difference(part.grad(), whole.grad().narrow(0, begin, rows));
  return std::max({of_y, of_dx, difference(together->running_mean, alone->running_mean)});
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const auto group = group_of(MPI_COMM_WORLD);
  const double in_float = run(group, at::kFloat), in_double = run(group, at::kDouble);
  MPI_Finalize();
  std::printf("rank %d of %d: off by %.1e in Float, %.1e in Double\n", group->rank(), group->size(),
              in_float, in_double);
  return group->size() > 1 && in_float < 1e-5 && in_double < 1e-12 ? 0 : 1;
}
