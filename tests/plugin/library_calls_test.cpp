// Programs that call NCCL and MPI themselves, beside libraries that stand in for those.
#include "hooks/nccl_types.h"
#include "tests/plugin/noted_calls.h"
#include "tests/plugin/on_ranks.h"

namespace nccl = ddpscope::nccl;

extern "C" {
int ncclGetUniqueId(nccl::UniqueId*);
nccl::CommInitRank ncclCommInitRank;
int ncclCommDestroy(nccl::Comm);
nccl::AllReduce ncclAllReduce;
nccl::Broadcast ncclBroadcast;
nccl::Bcast ncclBcast;
nccl::Reduce ncclReduce;
nccl::AllGather ncclAllGather;
nccl::ReduceScatter ncclReduceScatter;
nccl::Send ncclSend;
nccl::Receive ncclRecv;
nccl::GroupStart ncclGroupStart;
nccl::GroupEnd ncclGroupEnd;
int stand_in_nccl_calls();
int stand_in_torch_reduces(float*, std::size_t, nccl::Comm);

struct MpiObject;
extern MpiObject ompi_mpi_comm_world, ompi_mpi_float, ompi_mpi_double, ompi_mpi_op_sum,
    ompi_mpi_op_max;
int MPI_Init(int*, char***);
int MPI_Finalize();
int stand_in_mpi_comm(int, int, MpiObject**);
int MPI_Comm_free(MpiObject**);
int MPI_Allreduce(const void*, void*, int, MpiObject*, MpiObject*, MpiObject*);
int MPI_Reduce(const void*, void*, int, MpiObject*, MpiObject*, int, MpiObject*);
int MPI_Bcast(void*, int, MpiObject*, int, MpiObject*);
int MPI_Allgather(const void*, int, MpiObject*, void*, int, MpiObject*, MpiObject*);
int MPI_Barrier(MpiObject*);

struct MpiRequest;
int MPI_Iallreduce(const void*, void*, int, MpiObject*, MpiObject*, MpiObject*, MpiRequest**);
int MPI_Ireduce(const void*, void*, int, MpiObject*, MpiObject*, int, MpiObject*, MpiRequest**);
int MPI_Ibcast(void*, int, MpiObject*, int, MpiObject*, MpiRequest**);
int MPI_Iallgather(const void*, int, MpiObject*, void*, int, MpiObject*, MpiObject*, MpiRequest**);
int MPI_Ibarrier(MpiObject*, MpiRequest**);
int MPI_Wait(MpiRequest**, void*);
int MPI_Waitall(int, MpiRequest**, void*);
int MPI_Waitany(int, MpiRequest**, int*, void*);
int MPI_Test(MpiRequest**, int*, void*);
}

namespace ddpscope::test {
namespace {
constexpr int kFloat = 7;
constexpr int kDouble = 8;

nccl::Comm connect_nccl(const Place& place) {
  nccl::UniqueId id;
  ncclGetUniqueId(&id);
  nccl::Comm comm = nullptr;
  ncclCommInitRank(&comm, place.ranks, id, place.rank);
  return comm;
}

void run_backward(Net& net) { net->loss().backward(); }

std::vector<NotedCall> left_by(int rank) {
  const RingLeft left = read_ring(ring_path(rank));
  REQUIRE(left.error == "");
  return left.calls;
}

/// `kind reduce root elements dtype owner`
std::vector<std::string> lines_of(int rank) {
  std::vector<std::string> lines;
  std::uint64_t messages = 0;  // have numbers of their own
  for (const NotedCall& call : left_by(rank)) {
    CHECK(call.group_size == 2);
    CHECK(call.group == left_by(0).front().group);
    const bool is_message = call.kind == "send" || call.kind == "receive";
    messages += is_message ? 1 : 0;
    CHECK(call.seq == (is_message ? messages : lines.size() + 1 - messages));
    lines.push_back(call.kind + " " + call.reduce + " " + std::to_string(call.root) + " " +
                    std::to_string(call.elements) + " " + call.dtype + " " + call.owner);
  }
  return lines;
}
}  // namespace

TEST_CASE("Calls of NCCL that the program makes are noted as those of a backend") {
  Ranks ranks(2, [](const Place& place) {
    const nccl::Comm comm = connect_nccl(place);
    Net net;
    attach_diagnostics(net, quiet());
    run_backward(net);
    float* const weight = net->first->weight.data_ptr<float>();
    float* const gradient = net->second->bias.mutable_grad().data_ptr<float>();
    std::vector<double> other(12);
    ncclBcast(weight, 128, kFloat, 1, comm, nullptr);
    ncclAllReduce(gradient, gradient, 4, kFloat, nccl::kAverage, comm, nullptr);
    ncclBroadcast(other.data(), weight, 6, kDouble, 0, comm, nullptr);
    ncclReduce(other.data(), other.data(), 3, kDouble, nccl::kMax, 1, comm, nullptr);
    ncclAllGather(other.data(), other.data(), 2, kDouble, comm, nullptr);
    ncclReduceScatter(other.data(), other.data(), 5, kDouble, nccl::kSum, comm, nullptr);
    ncclSend(other.data(), 7, kDouble, 1 - place.rank, comm, nullptr);
    ncclRecv(other.data(), 8, kDouble, 1 - place.rank, comm, nullptr);
    ncclCommDestroy(comm);
    return stand_in_nccl_calls() == 8 ? 0 : 1;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(records("run").at(0).find(R"("nccl":"2.27.5")") != std::string::npos);
  for (const int rank : {0, 1}) {
    const std::string peer = std::to_string(1 - rank);
    const std::vector<std::string> expected = {"broadcast - 1 128 float32 first.weight",
                                               "all_reduce other -1 4 float32 second.bias.grad",
                                               "broadcast - 0 6 float64 first.weight",
                                               "reduce max 1 3 float64 ",
                                               "all_gather - -1 2 float64 ",
                                               "reduce_scatter sum -1 5 float64 ",
                                               "send - " + peer + " 7 float64 ",
                                               "receive - " + peer + " 8 float64 "};
    CHECK(lines_of(rank) == expected);
    for (const NotedCall& call : left_by(rank)) CHECK(call.state == "completed");
  }
}

TEST_CASE("A large sum of NCCL between backward and optimizer is a bucket of gradients") {
  Ranks ranks(2, [](const Place& place) {
    const nccl::Comm comm = connect_nccl(place);
    Net net;
    attach_diagnostics(net, quiet());
    std::vector<float> flat(212);
    ncclAllReduce(flat.data(), flat.data(), 212, kFloat, nccl::kSum, comm, nullptr);
    run_backward(net);
    ncclAllReduce(flat.data(), flat.data(), 212, kFloat, nccl::kSum, comm, nullptr);
    ncclAllReduce(flat.data(), flat.data(), 212, kFloat, nccl::kMax, comm, nullptr);
    ncclAllReduce(flat.data(), flat.data(), 8, kFloat, nccl::kSum, comm, nullptr);
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(lines_of(0) == std::vector<std::string>{
                           "all_reduce sum -1 212 float32 ", "all_reduce sum -1 212 float32 bucket",
                           "all_reduce max -1 212 float32 ", "all_reduce sum -1 8 float32 "});
}

TEST_CASE("A block of NCCL calls is one call whatever their order in it") {
  Ranks ranks(2, [](const Place& place) {
    const nccl::Comm comm = connect_nccl(place);
    Net net;
    attach_diagnostics(net, quiet());
    float values[8] = {};
    double other[8] = {};
    ncclGroupStart();
    for (int i = 0; i < 2; ++i) {
      ncclGroupStart();
      if (i == place.rank) ncclAllReduce(values, values, 5, kFloat, nccl::kSum, comm, nullptr);
      if (i != place.rank) ncclBroadcast(other, other, 2, kDouble, 1, comm, nullptr);
      ncclGroupEnd();
    }
    ncclGroupEnd();
    ncclAllReduce(values, values, 8, kFloat, nccl::kSum, comm, nullptr);
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  for (const int rank : {0, 1}) {
    CHECK(lines_of(rank) ==
          std::vector<std::string>{"all_reduce other -1 7  ", "all_reduce sum -1 8 float32 "});
    CHECK(left_by(rank).front().list == 2);
  }
}

TEST_CASE("Calls of NCCL that LibTorch makes are not noted a second time") {
  Ranks ranks(2, [](const Place& place) {
    const nccl::Comm comm = connect_nccl(place);
    Net net;
    attach_diagnostics(net, quiet());
    float values[8] = {};
    stand_in_torch_reduces(values, 8, comm);
    ncclAllReduce(values, values, 3, kFloat, nccl::kSum, comm, nullptr);
    return stand_in_nccl_calls() == 2 ? 0 : 1;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(lines_of(0) == std::vector<std::string>{"all_reduce sum -1 3 float32 "});
}

TEST_CASE("A call of NCCL that fails is noted as failed") {
  Ranks ranks(2, [](const Place& place) {
    const nccl::Comm comm = connect_nccl(place);
    Net net;
    attach_diagnostics(net, quiet());
    return ncclRecv(nullptr, 0, kFloat, 0, comm, nullptr) == 5 ? 0 : 1;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  CHECK(left_by(1).front().state == "failed");
}

TEST_CASE("Calls of MPI that the program makes are noted as those of a backend") {
  Ranks ranks(2, [](const Place&) {
    MPI_Init(nullptr, nullptr);
    Net net;
    attach_diagnostics(net, quiet());
    run_backward(net);
    MpiObject* const world = &ompi_mpi_comm_world;
    float* const weight = net->first->weight.data_ptr<float>();
    float* const gradient = net->second->bias.mutable_grad().data_ptr<float>();
    void* const in_place = reinterpret_cast<void*>(1);
    double other[8] = {};
    MPI_Bcast(weight, 128, &ompi_mpi_float, 1, world);
    MPI_Allreduce(in_place, gradient, 4, &ompi_mpi_float, &ompi_mpi_op_sum, world);
    MPI_Reduce(other, other + 4, 3, &ompi_mpi_double, &ompi_mpi_op_max, 0, world);
    MPI_Allgather(other, 2, &ompi_mpi_double, other + 4, 2, &ompi_mpi_double, world);
    MPI_Barrier(world);
    return MPI_Finalize();
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  for (const int rank : {0, 1}) {
    const std::vector<std::string> expected = {
        "broadcast - 1 128 float32 first.weight", "all_reduce sum -1 4 float32 second.bias.grad",
        "reduce max 0 3 float64 ", "all_gather - -1 2 float64 ", "barrier - -1 0  "};
    CHECK(lines_of(rank) == expected);
    for (const NotedCall& call : left_by(rank)) CHECK(call.state == "completed");
  }
}

TEST_CASE("Calls that MPI starts end when the program hears of it, in whichever way") {
  Ranks ranks(2, [](const Place&) {
    Net net;
    attach_diagnostics(net, quiet());
    run_backward(net);
    MpiObject* const world = &ompi_mpi_comm_world;
    float* const weight = net->first->weight.data_ptr<float>();
    float* const gradient = net->second->bias.mutable_grad().data_ptr<float>();
    void* const in_place = reinterpret_cast<void*>(1);
    double other[8] = {};
    int told = 0;
    MpiRequest* list[2] = {};
    MPI_Ibcast(weight, 128, &ompi_mpi_float, 1, world, &list[0]);
    MPI_Iallreduce(in_place, gradient, 4, &ompi_mpi_float, &ompi_mpi_op_sum, world, &list[1]);
    MPI_Waitall(2, list, nullptr);
    MPI_Ireduce(other, other + 4, 3, &ompi_mpi_double, &ompi_mpi_op_max, 0, world, &list[0]);
    MPI_Wait(&list[0], nullptr);
    MPI_Iallgather(other, 2, &ompi_mpi_double, other + 4, 2, &ompi_mpi_double, world, &list[0]);
    while (told == 0) MPI_Test(&list[0], &told, nullptr);
    MPI_Ibarrier(world, &list[0]);
    MPI_Ibarrier(world, &list[1]);
    MPI_Waitany(2, list, &told, nullptr);
    MPI_Test(&list[0], &told, nullptr);  // not yet
    return told;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const std::vector<std::string> expected = {"broadcast - 1 128 float32 first.weight",
                                             "all_reduce sum -1 4 float32 second.bias.grad",
                                             "reduce max 0 3 float64 ",
                                             "all_gather - -1 2 float64 ",
                                             "barrier - -1 0  ",
                                             "barrier - -1 0  "};
  CHECK(lines_of(0) == expected);
  std::string states;
  for (const NotedCall& call : left_by(0)) states += call.state + " ";
  CHECK(states == "completed completed completed completed issued completed ");
}

TEST_CASE("Calls that MPI starts for one rank end at once") {
  Ranks ranks(2, [](const Place& place) {
    Net net;
    attach_diagnostics(net, quiet());
    MpiObject* own = nullptr;
    MpiRequest* request = nullptr;
    stand_in_mpi_comm(place.rank, 1, &own);
    MPI_Ibarrier(own, &request);
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  REQUIRE(left_by(0).size() == 1);
  CHECK(left_by(0).front().state == "completed");
}

TEST_CASE("Communicators of MPI are told apart by the ranks that are in them") {
  Ranks ranks(2, [](const Place& place) {
    Net net;
    attach_diagnostics(net, quiet());
    for (const int first : {0, 2}) {  // the ranks make them in different orders
      MpiObject* comm = nullptr;
      stand_in_mpi_comm(place.rank == 0 ? first : 2 - first, 2, &comm);
      MPI_Barrier(comm);
      MPI_Comm_free(&comm);
    }
    return 0;
  });
  REQUIRE(ranks.exit_codes() == std::vector<int>{0, 0});
  const auto first = left_by(0), second = left_by(1);
  REQUIRE(first.size() == 2);
  REQUIRE(second.size() == 2);
  CHECK(first[0].group != first[1].group);
  CHECK(first[0].group == second[1].group);
  CHECK(first[1].group == second[0].group);
}

}  // namespace ddpscope::test
