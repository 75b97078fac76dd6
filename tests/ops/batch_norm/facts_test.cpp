#include "tests/ops/batch_norm/norm_case.h"

namespace ddpscope::test::facts_test {
namespace {

struct Log : OpObserver {
  std::vector<std::string> lines;
  std::vector<NormBatchFacts> batches;

  void norm_exchange_begins(const NormExchangeFacts& one) noexcept override {
    lines.push_back("begins " + std::string(one.layer) + " " + std::to_string(one.call) + " " +
                    std::to_string(static_cast<int>(one.pass)) + " of " +
                    std::to_string(one.channels));
  }
  void norm_exchange_ended(const NormExchangeFacts&, bool threw) noexcept override {
    lines.push_back(threw ? "threw" : "ended");
  }
  void norm_forward(const NormBatchFacts& batch) noexcept override {
    batches.push_back(batch);
    batches.back().layer = "";  // lives for the call alone
  }
};

/// Observes while it lives.
struct Observed : Log {
  OpObserver* const before = set_op_observer(this);
  ~Observed() override { set_op_observer(before); }
};

at::Tensor run(const at::Tensor& x, const CommunicatorPtr& group) {
  return sync_batch_norm(x, {}, {},
                         SyncBatchNormFuncOptions().training(true).communicator(group).name("bn"));
}

CommunicatorPtr twin() {
  return make_communicator(0, 2, [](at::Tensor& record) { record.mul_(2); });
}
}  // namespace

TEST_CASE("an observer is told layer, call and pass of each exchange", "[norm]") {
  Observed log;
  const CommunicatorPtr group = twin();
  run(torch::randn({4, 3}).requires_grad_(), group).sum().backward();
  run(torch::randn({4, 3}), group);
  const std::vector<std::string> expected = {
      "begins bn 1 0 of 3", "ended", "begins bn 1 1 of 3", "ended", "begins bn 2 0 of 3", "ended"};
  CHECK(log.lines == expected);
  const auto failing =
      make_communicator(0, 2, [](at::Tensor&) { throw std::runtime_error("lost"); });
  CHECK_THROWS(run(torch::randn({4, 3}), failing));
  CHECK(log.lines.back() == "threw");
}

TEST_CASE("an observer is told dead channels and those that are not finite", "[norm]") {
  Observed log;
  at::Tensor x = torch::randn({6, 4});
  x.select(1, 1).fill_(3);
  x[2][3] = std::numeric_limits<float>::quiet_NaN();
  run(x, twin());
  REQUIRE(log.batches.size() == 1);
  const NormBatchFacts& facts = log.batches[0];
  CHECK(facts.call == 1);
  CHECK(facts.ranks == 2);
  CHECK(facts.channels == 4);
  CHECK(facts.own_values == 6);
  CHECK(facts.values == 12);
  CHECK(facts.dead == 1);
  CHECK(facts.not_finite == 1);
  CHECK(facts.own_not_finite == 1);
  CHECK(facts.own_share == Approx(0).margin(1e-12));
  CHECK(!facts.is_recomputed);
}

TEST_CASE("the shares of the variance tell ranks that see other data", "[norm]") {
  // One observer for all threads of a process: they take turns.
  struct Shares final : OpObserver {
    std::mutex mutex;
    double total = 0;
    void norm_forward(const NormBatchFacts& batch) noexcept override {
      const std::lock_guard lock(mutex);
      total += batch.own_share;
    }
  } shares;
  OpObserver* const before = set_op_observer(&shares);
  on_ranks(2, [](int rank, const CommunicatorPtr& ranks) {
    const at::Tensor x = torch::tensor({{-1.}, {1.}}, at::kFloat) + 3 * rank;
    return run(x, ranks);
  });
  set_op_observer(before);
  // Means 0 and 3, variance 1 in each: 2.25 of 3.25 lies between them.
  CHECK(shares.total == Approx(2.25 / 3.25));
}

TEST_CASE("without an observer nothing is told, and the bits are the same", "[norm]") {
  torch::manual_seed(4);
  const at::Tensor x = torch::randn({5, 3});
  const at::Tensor without = run(x, twin());
  Observed log;
  CHECK(same_bits(without, run(x, twin())));
}

}  // namespace ddpscope::test::facts_test
