#include "plugin/late_values.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope::test::late_values_test {
namespace {

/// What a worker does with its events, each named by a letter and its step.
class Order {
 public:
  void put(Event event) {
    if (!values_.concerns(event)) {
      note(event);
      return;
    }
    values_.put(std::move(event));
    Event next;
    while (values_.take(next)) note(next);
  }
  void backward_end(std::int64_t step) { put(BackwardEndEvent{.at = {.step = step}}); }
  void optimizer_step(std::int64_t step) { put(OptimizerStepEvent{.at = {.step = step}}); }
  void awaited(std::uint64_t batch) { put(ValuesAwaitedEvent{.at = {}, .batch = batch}); }
  /// A loss, the values of a gradient and one that is not finite.
  void arrived(std::uint64_t batch, std::int64_t step) {
    auto values = std::make_unique<DeviceValuesEvent>();
    values->batch = batch;
    values->losses.push_back({.at = {.step = step}});
    values->gradients.push_back({.at = {.step = step}});
    values->nonfinite.push_back({.at = {.step = step}});
    put(std::move(values));
  }
  void lost(std::uint64_t batch) {
    auto values = std::make_unique<DeviceValuesEvent>();
    values->batch = batch;
    put(std::move(values));
  }
  std::string told() { return std::exchange(told_, ""); }

 private:
  void note(const Event& event) {
    if (const auto* end = std::get_if<BackwardEndEvent>(&event)) add('b', end->at);
    if (const auto* step = std::get_if<OptimizerStepEvent>(&event)) add('s', step->at);
    if (const auto* loss = std::get_if<LossEvent>(&event)) add('l', loss->at);
    if (const auto* exit = std::get_if<ExitEvent>(&event)) add('x', exit->at);
    if (std::holds_alternative<DroppedEvent>(event)) told_ += "d ";
    if (const auto* all = std::get_if<std::unique_ptr<GradientValuesEvent>>(&event)) {
      add('g', (*all)->at);
    }
    if (const auto* bad = std::get_if<std::unique_ptr<NonfiniteGradientEvent>>(&event)) {
      add('n', (*bad)->at);
    }
    if (std::holds_alternative<ValuesAwaitedEvent>(event)) told_ += "awaited ";
  }
  void add(char kind, const Stamp& at) { told_ += kind + std::to_string(at.step) + " "; }

  LateValues values_;
  std::string told_;
};

TEST_CASE("Without a device no event waits", "[late_values]") {
  Order order;
  order.backward_end(1);
  order.optimizer_step(1);
  CHECK(order.told() == "b1 s1 ");
}

TEST_CASE("Values are judged where the device was asked, before what came after", "[late_values]") {
  Order order;
  order.optimizer_step(1);
  order.awaited(1);
  order.backward_end(2);
  order.optimizer_step(2);
  CHECK(order.told() == "s1 ");
  order.arrived(1, 2);
  CHECK(order.told() == "l2 g2 n2 b2 s2 ");
  order.backward_end(3);
  CHECK(order.told() == "b3 ");
}

TEST_CASE("Each of two batches waits for its own values", "[late_values]") {
  Order order;
  order.awaited(1);
  order.backward_end(1);
  order.awaited(2);
  order.backward_end(2);
  order.arrived(2, 2);
  CHECK(order.told().empty());
  order.arrived(1, 1);
  CHECK(order.told() == "l1 g1 n1 b1 l2 g2 n2 b2 ");
}

TEST_CASE("A lost device holds nothing back", "[late_values]") {
  Order order;
  order.awaited(1);
  order.backward_end(1);
  order.lost(1);
  CHECK(order.told() == "b1 ");
}

TEST_CASE("At exit all is judged, with the values that came or without", "[late_values]") {
  Order order;
  order.awaited(1);
  order.backward_end(1);
  order.awaited(2);
  order.backward_end(2);
  order.arrived(2, 2);
  order.put(ExitEvent{.at = {.step = 2}});
  CHECK(order.told() == "b1 l2 g2 n2 b2 x2 ");
}

TEST_CASE("Where events were dropped nothing waits for a batch that may be among them",
          "[late_values]") {
  Order order;
  order.awaited(1);
  order.backward_end(1);
  order.put(DroppedEvent{.count = 5});
  CHECK(order.told() == "b1 d ");
  order.arrived(1, 1);  // too late: its place is gone
  CHECK(order.told().empty());
  order.backward_end(2);
  CHECK(order.told() == "b2 ");
  order.awaited(2);
  order.backward_end(3);
  CHECK(order.told().empty());
  order.arrived(2, 3);
  CHECK(order.told() == "l3 g3 n3 b3 ");
}

TEST_CASE("No more than a number of events is held back", "[late_values]") {
  Order order;
  order.awaited(1);
  order.backward_end(1);
  order.awaited(2);
  for (std::size_t i = 0; i + 4 < LateValues::kMaxHeld; ++i) order.optimizer_step(2);
  order.optimizer_step(2);
  CHECK(order.told().empty());
  order.optimizer_step(2);
  CHECK(order.told() == "b1 ");
  order.arrived(2, 2);
  CHECK(order.told().starts_with("l2 g2 n2 s2 "));
}

}  // namespace
}  // namespace ddpscope::test::late_values_test
