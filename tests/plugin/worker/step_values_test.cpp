#include "plugin/step_values.h"

#include <memory>

#include "tests/support/catch.h"

namespace ddpscope::test::step_values_test {
namespace {
constexpr Stamp kAt{.step = 3, .cycle = 3};

Event loss(double value, const Stamp& at = kAt) { return LossEvent{.at = at, .value = value}; }
Event received(TensorId tensor) { return GradientEvent{.at = kAt, .tensor = tensor}; }
Event measured(TensorId tensor, double sum_of_squares, std::int64_t nan_count = 0) {
  return std::make_unique<GradientValuesEvent>(
      GradientValuesEvent{.at = kAt,
                          .tensor = tensor,
                          .values = {.elements = 4, .nan_count = nan_count},
                          .sum_of_squares = sum_of_squares});
}

template <class... Events>
StepValues::Told told_of(const Events&... events) {
  StepValues values;
  (values.saw(events), ...);
  return values.take(kAt.cycle);
}

TEST_CASE("A step's loss is the last one of its cycle", "[worker]") {
  CHECK(told_of(loss(2), loss(0.5)).loss == 0.5);
  CHECK_FALSE(told_of(loss(2, {.step = 2, .cycle = 2})).loss.has_value());
  CHECK_FALSE(told_of().loss.has_value());
}

TEST_CASE("A cycle's values are not told of the next", "[worker]") {
  StepValues values;
  values.saw(loss(1));
  values.saw(received(1));
  values.saw(measured(1, 4));
  CHECK(values.take(kAt.cycle).loss == 1);
  const StepValues::Told next = values.take(kAt.cycle + 1);
  CHECK_FALSE(next.loss.has_value());
  CHECK_FALSE(next.gradient_norm.has_value());
}

TEST_CASE("The norm of the gradients is over all parameters", "[worker]") {
  CHECK(told_of(received(1), measured(1, 9), received(2), measured(2, 16)).gradient_norm == 5);
}

TEST_CASE("A norm that is not known whole is not told", "[worker]") {
  CHECK_FALSE(told_of(received(1), measured(1, 9), received(2)).gradient_norm.has_value());
  CHECK_FALSE(told_of(received(1), measured(1, 9, 1)).gradient_norm.has_value());
  CHECK_FALSE(
      told_of(received(1), measured(1, 9), received(1), measured(1, 9)).gradient_norm.has_value());
  CHECK_FALSE(told_of().gradient_norm.has_value());
}
}  // namespace
}  // namespace ddpscope::test::step_values_test
