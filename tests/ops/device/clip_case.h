#pragma once

#include <ddpscope/ops/communicator.h>

#include "ops/clip/devices.h"
#include "tests/ops/clip/oracle.h"
#include "tests/ops/device/test_device.h"

namespace ddpscope::test::clip_test {

/// Lies where the tests of this program run kernels, all of it.
inline constexpr int kOneDevice = 1;

/// What was made of a list of `devices` devices, to which its tensors go in turn. Of several the
/// last one is the CPU.
struct SpreadList {
  SpreadList(const Tensors& gradients, int devices, clip::Change change = clip::Change::kScale);

  std::vector<Tensors> tensors;
  std::vector<clip::Table> tables;
  std::vector<clip::Portion> portions;
};

ClipResult clip(const Tensors& gradients, double max_norm, const ClipOptions& options = {},
                int devices = kOneDevice);

ClipResult clip_on_cpu(const Tensors& gradients, double max_norm, ClipOptions options = {});

bool is_near(const at::Tensor& found, const at::Tensor& expected, double limit = 1e-13);

/// Both ways of clipping give the same, numbers and gradients within rounding.
void check_same(const Tensors& gradients, double max_norm, const ClipOptions& options = {},
                int devices = kOneDevice);

at::Tensor random_of(std::int64_t elements, at::ScalarType type, std::int64_t offset = 0);

Tensors mixed_list();

/// Of two ranks, of which the other one always brings the same, to every call.
struct BesideAnother final : Communicator {
  explicit BesideAnother(const std::vector<double>& norm)
      : norm(torch::tensor(norm, at::kDouble)) {}
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 2; }
  void all_reduce_sum(at::Tensor&) override {}
  at::Tensor all_gather(const at::Tensor& record) override {
    const at::Tensor agreed = record.slice(0, 3) + (is_ahead ? 1 : 0);
    return torch::stack({record, torch::cat({norm, agreed})});
  }
  at::Tensor norm;
  bool is_ahead = false;
};

}  // namespace ddpscope::test::clip_test
