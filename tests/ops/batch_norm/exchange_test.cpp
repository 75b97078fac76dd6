#include "ops/batch_norm/exchange.h"

#include <set>

#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::exchange_test {
namespace {
using Catch::Matchers::Contains;

at::Tensor norm_of(const at::Tensor& x, const CommunicatorPtr& group, const std::string& layer) {
  return sync_batch_norm(x, {}, {},
                         SyncBatchNormFuncOptions().training(true).communicator(group).name(layer));
}

}  // namespace

TEST_CASE("layers swapped on one rank are named with their call", "[norm]") {
  const auto mode = GENERATE(ExchangeMode::kSum, ExchangeMode::kGather);
  const auto mean = torch::zeros({3});
  const auto faults = try_on_ranks(3, [&](int rank, const CommunicatorPtr& group) {
    const auto x = torch::randn({4, 3});
    norm_of(x, group, "conv1.norm");
    const std::string layer = rank == 1 ? "conv3.norm" : "conv2.norm";
    sync_batch_norm(
        x, rank == 0 ? mean : torch::zeros({3}), torch::ones({3}),
        SyncBatchNormFuncOptions().training(true).communicator(group).exchange(mode).name(layer));
  });
  CHECK_THAT(faults[0], Contains("this rank is at layer conv2.norm, call 1, forward"));
  CHECK_THAT(faults[1], Contains("this rank is at layer conv3.norm, call 1, forward"));
  CHECK(torch::equal(mean, torch::zeros({3})));
}

TEST_CASE("a call that one rank makes once more is found", "[norm]") {
  const auto faults = try_on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    const auto x = torch::randn({4, 3}).requires_grad_();
    const auto first = norm_of(x, group, "norm");
    if (rank == 0) first.sum().backward();
    norm_of(x, group, "norm");
  });
  CHECK(!faults[0].empty());
  CHECK(!faults[1].empty());
}

TEST_CASE("a call that one rank refused is counted", "[norm]") {
  const auto faults = try_on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    const auto x = torch::randn({4, 3});
    if (rank == 1) CHECK_THROWS_WITH(norm_of(torch::randn({4}), group, "norm"), Contains("(B, C"));
    norm_of(x, group, "norm");
  });
  CHECK_THAT(faults[0], Contains("this rank is at layer norm, call 1, forward"));
  CHECK_THAT(faults[1], Contains("this rank is at layer norm, call 2, forward"));
}

TEST_CASE("a backward beside a forward of equal length is told by its phase", "[norm]") {
  const auto faults = try_on_ranks(2, [](int rank, const CommunicatorPtr& group) {
    batch_norm::Call call;
    call.group = group;
    call.layer = "norm";
    call.number = 4;
    const auto phase = rank == 0 ? batch_norm::Phase::kBackward : batch_norm::Phase::kForward;
    batch_norm::exchange_sums(torch::ones({6}, at::kDouble), call, phase);
  });
  CHECK_THAT(faults[0], Contains("layer norm, call 4, backward"));
  CHECK_THAT(faults[1], Contains("layer norm, call 4, forward"));
}

TEST_CASE("a failing communicator is told with group, operation and layer", "[norm]") {
  const auto group = make_communicator(0, 2, [](at::Tensor&) { throw std::runtime_error("gone"); });
  const auto x = torch::randn({4, 3});
  CHECK_THROWS_WITH(norm_of(x, group, "stem"),
                    Contains("all_reduce_sum over a function of the program, rank 0 of 2: gone") &&
                        Contains("layer stem, call 1, forward"));
}

TEST_CASE("a function that does not sum is told as that", "[norm]") {
  const auto fails = [](const std::function<void(at::Tensor&)>& sum, const std::string& text) {
    CHECK_THROWS_WITH(norm_of(torch::randn({4, 3}), make_communicator(0, 2, sum), "stem.norm"),
                      Contains(text) && Contains("stem.norm, call 1, forward"));
  };
  fails([](at::Tensor& record) { record.zero_(); }, "is zero");
  fails([](at::Tensor&) {}, "is what this rank sent");
  fails([](at::Tensor& record) { record.reset(); }, "undefined tensor");
  fails([](at::Tensor& record) { record = record.to(torch::kFloat); }, "the function left Float");
  fails([](at::Tensor& record) { record = record.sum(); }, "it was given Double of shape");
}

TEST_CASE("ids fit the sums that compare them", "[norm]") {
  batch_norm::Call call;
  std::set<double> ids;
  for (const int size : {1, 2, 8, 1024, 1 << 20}) {
    for (call.number = 1; call.number <= 200; ++call.number) {
      const double id = batch_norm::id_of(call, batch_norm::Phase::kForward, size);
      const double sum = size * id;
      REQUIRE(id < 65536);
      REQUIRE(sum * sum <= 0x1p53);
      if (size == 8) ids.insert(id);
    }
  }
  CHECK(ids.size() > 190);
}

TEST_CASE("a group of some ranks leaves the others alone", "[norm]") {
  const auto pair = ThreadGroup::make(2);
  torch::manual_seed(1);
  const auto x = torch::randn({9, 3}, at::kDouble);
  const auto found = on_ranks(3, [&](int rank, const CommunicatorPtr&) {
    auto own = x.narrow(0, rank * 3, 3).detach().requires_grad_();
    const auto y = norm_of(own, rank == 1 ? nullptr : pair->communicator(rank / 2), "norm");
    y.pow(3).sum().backward();
    return std::vector<at::Tensor>{y.detach(), own.grad()};
  });
  const auto both = torch::cat({x.narrow(0, 0, 3), x.narrow(0, 6, 3)}).requires_grad_();
  const auto expected = torch::batch_norm(both, {}, {}, {}, {}, true, 0.1, 1e-5, false);
  expected.pow(3).sum().backward();
  CHECK(error_of(found[2][0], expected.detach().narrow(0, 3, 3)) < 1e-12);
  CHECK(error_of(found[2][1], both.grad().narrow(0, 3, 3)) < 1e-11);
  CHECK(error_of(found[1][0].mean(0), torch::zeros({3}, at::kDouble)) < 1e-12);
}

TEST_CASE("overlapping groups work after each other", "[norm]") {
  const auto left = ThreadGroup::make(2), right = ThreadGroup::make(2);
  const auto found = on_ranks(3, [&](int rank, const CommunicatorPtr&) {
    auto y = torch::full({2, 1}, rank, at::kDouble).requires_grad_();
    const auto x = y;
    if (rank < 2) y = norm_of(y, left->communicator(rank), "left");
    if (rank > 0) y = norm_of(y, right->communicator(rank - 1), "right");
    y.pow(3).sum().backward();
    return y.detach();
  });
  CHECK(found[0][0].item<double>() == Approx(-1).epsilon(1e-4));
  CHECK(found[1][0].item<double>() == Approx(-1).epsilon(1e-4));
  CHECK(found[2][0].item<double>() == Approx(1).epsilon(1e-4));
}

TEST_CASE("layers in front of a parameter average count this rank's share", "[norm]") {
  torch::manual_seed(2);
  const auto norm = make_case({.samples = {2, 4}, .dtype = at::kDouble});
  const auto found = run_case(norm);
  NormCase together = norm;
  together.inputs = {torch::cat(norm.inputs)};
  together.gradients = {torch::cat(norm.gradients)};
  const auto whole = run_case(together);
  CHECK(error_of(found[0].dweight + found[1].dweight, whole[0].dweight) < 1e-12);
  CHECK(error_of(torch::cat({found[0].dx, found[1].dx}), whole[0].dx) < 1e-11);
}

}  // namespace ddpscope::test::exchange_test
