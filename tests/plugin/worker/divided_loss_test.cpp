#include <cmath>
#include <string>
#include <vector>

#include "exchange/reduction_record.h"
#include "tests/plugin/worker/one_rank.h"
#include "tests/support/catch.h"

namespace ddpscope::test::divided_loss_test {
namespace {
using namespace test;  // NOLINT(google-build-using-namespace)

constexpr TensorId kLosses = 60;
constexpr TensorId kQuotient = 61;
constexpr TensorId kRoot = 62;
constexpr TensorId kOther = 63;
constexpr TensorId kCount = 80;
constexpr std::int64_t kRows = 24;

OpEvent op(const std::string& name, std::vector<TensorId> inputs, TensorId output) {
  return {.op = name,
          .inputs = std::move(inputs),
          .outputs = {TensorInfo{.id = output, .requires_grad = true}}};
}

OpEvent by_number(const std::string& name, double factor) {
  OpEvent event = op(name, {kLosses}, kQuotient);
  event.factor = factor;
  return event;
}

/// Whether the sum over ranks has no weight, where the ranks exchanged a few numbers.
bool may_be_mean(const std::vector<OpEvent>& ops, std::int64_t count_elements = 1,
                 bool exchanges = true) {
  Rank rank;
  rank.send_large(net());
  rank.send_large(BatchEvent{.at = rank.now(), .fingerprint = 9, .shape = {kRows, 10}});
  if (exchanges) rank.send_large(CollectiveEvent{.reduce = ReduceKind::kSum, .elements_max = 1});
  rank.send_large(
      TensorEvent{.at = rank.now(),
                  .tensor = {.id = kCount, .shape = {count_elements}, .elements = count_elements}});
  rank.send_large(op("aten::nll_loss_nd", {kHead}, kLosses));
  rank.send_large(op("aten::mse_loss", {kHead}, kOther));
  for (const OpEvent& event : ops) rank.send_large(OpEvent(event));
  rank.send_large(BackwardEvent{.at = rank.now(), .surveyed = true, .roots = {kRoot}});
  rank.send(BackwardEndEvent{.at = rank.now()});
  rank.send_large(ReducedGradientsEvent{.at = rank.now(), .gradients = {{.tensor = kWeight}}});
  rank.end_step();
  const auto told = decode_reductions(rank.of(BlobKind::kReductions).at(0).bytes);
  return std::isnan(told.value().weight);
}

const OpEvent kDivide = op("aten::div", {kLosses, kCount}, kQuotient);
const OpEvent kSum = op("aten::sum", {kQuotient}, kRoot);
}  // namespace

TEST_CASE("A loss that is divided by one number and then summed up may be a mean",
          "[rank_digest]") {
  const std::string last = GENERATE("aten::sum", "aten::squeeze", "aten::view", "aten::neg");
  CHECK(may_be_mean({kDivide, op(last, {kQuotient}, kRoot)}));
  CHECK(may_be_mean({op("aten::mul", {kLosses, kCount}, kQuotient), kSum}));
  CHECK(may_be_mean(
      {op("aten::div_", {kLosses, kCount}, kLosses), op("aten::sum", {kLosses}, kRoot)}));
  CHECK(may_be_mean({by_number("aten::div", 1.0 / 91), kSum}));
  CHECK(may_be_mean({kDivide, op("aten::div", {kOther, kCount}, kOther),
                     op("aten::add", {kQuotient, kOther}, kRoot)}));
}

TEST_CASE("A loss that no count of all ranks divides is no mean of theirs", "[rank_digest]") {
  CHECK_FALSE(may_be_mean({kDivide, kSum}, /*count_elements=*/1, /*exchanges=*/false));
  // Weights of its elements.
  CHECK_FALSE(may_be_mean({kDivide, kSum}, /*count_elements=*/kRows));
  CHECK_FALSE(may_be_mean({by_number("aten::div", 1.0 / kRows), kSum}));
  CHECK_FALSE(may_be_mean({by_number("aten::mul", 0.5), kSum}));
  CHECK_FALSE(may_be_mean({by_number("aten::div", 1 / 0.3), kSum}));
  CHECK_FALSE(may_be_mean({op("aten::div", {kLosses, kOther}, kQuotient), kSum}));
  // Before what is no sum, or beside a part that was not divided.
  CHECK_FALSE(may_be_mean({kDivide, op("aten::mse_loss", {kQuotient}, kRoot)}));
  CHECK_FALSE(may_be_mean({kDivide, op("aten::add", {kQuotient, kOther}, kRoot)}));
  CHECK_FALSE(
      may_be_mean({op("aten::div_", {kLosses, kCount}, kLosses),
                   op("aten::exp_", {kLosses}, kLosses), op("aten::sum", {kLosses}, kRoot)}));
}

}  // namespace ddpscope::test::divided_loss_test
