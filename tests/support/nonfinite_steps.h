#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "tests/support/stale_events.h"

namespace ddpscope::test {

inline constexpr TensorId kConv = 1;
inline constexpr TensorId kHead = 2;
inline constexpr TensorId kMean = 3;  // a buffer
inline constexpr ModuleId kConvModule = 1001;
inline constexpr ModuleId kHeadModule = 1002;

inline ValueRange nans(std::int64_t count, std::int64_t elements) {
  return {.elements = elements, .nan_count = count};
}
inline ValueRange infs(std::int64_t count, std::int64_t elements) {
  return {.elements = elements, .inf_count = count};
}

/// A network of `conv1` and `head` whose steps hold values that are not finite.
struct NonfiniteSteps {
  LinesByStack lines;
  Program program;

  explicit NonfiniteSteps(std::string checks, bool optimizer = true, std::int64_t world_size = 1)
      : program(std::move(checks), &lines, world_size) {
    program.attach(1,
                   {{.id = kConv, .path = "conv1.weight", .shape = {64, 64}},
                    {.id = kHead, .path = "head.weight", .shape = {4, 16}},
                    {.id = kMean, .path = "head.mean", .requires_grad = false, .is_buffer = true}});
    if (optimizer) program.optimizer(1, {kConv, kHead});
  }

  void loss(double value) {
    program.send(LossEvent{.at = program.now(), .loss = 30, .value = value});
  }
  void gradient(TensorId tensor, const ValueRange& values = nans(1, 64)) {
    program.send_now(NonfiniteGradientEvent{.at = {}, .tensor = tensor, .values = values});
  }
  void backward() { program.backward_without_survey({kHead, kConv}); }
  void step() {
    program.step(1);
    program.zero_grad(1);
  }

  void finite_step() {
    loss(0.5);
    backward();
    step();
  }
  /// What forward made reaches the loss and both gradients.
  void bad_forward(const NonfiniteOutputEvent& origin) {
    loss(-NAN);  // as processors make it
    program.in_backward = [this] {
      gradient(kHead);
      gradient(kConv, nans(4096, 4096));
    };
    backward();
    program.send_now(origin);
  }
  void bad_step(const NonfiniteOutputEvent& origin) {
    bad_forward(origin);
    step();
  }
  /// A node makes NaN of what was finite.
  void bad_backward(const NonfiniteNodeEvent& node) {
    loss(0.5);
    program.in_backward = [this, node] {
      program.send_now(node);
      gradient(kConv, node.returned);
    };
    backward();
  }
};

/// Three elements of the result of a convolution are Inf.
inline NonfiniteOutputEvent overflow() {
  return {.at = {},
          .place = {.module = kConvModule},
          .op = "aten::convolution",
          .output = {.id = 21, .shape = {64, 1024}, .dtype = "float32", .elements = 65536},
          .values = infs(3, 65536),
          .inputs_known = true,
          .inputs = {.elements = 8192, .absmax = 4.1e4},
          .made = Doing{.step = 1, .module = kConvModule, .stack = 88},
          .victims = 213};
}

/// Twelve elements of the gradient of a logarithm are NaN.
inline NonfiniteNodeEvent log_node() {
  return {.at = {},
          .node = "LogBackward0",
          .op = "aten::log",
          .place = {.module = kHeadModule},
          .made = 22,
          .returned = nans(12, 4096),
          .saved_known = true,
          .saved_min = 0,
          .made_by = Doing{.step = 1, .module = kHeadModule, .stack = 40}};
}

inline RiskyInputEvent risky_log(TensorId output = 22) {
  return {.at = {},
          .op = "aten::log",
          .module = kHeadModule,
          .output = output,
          .rule = "log",
          .dtype = "float32",
          .elements = 512,
          .offending_count = 3};
}

}  // namespace ddpscope::test
