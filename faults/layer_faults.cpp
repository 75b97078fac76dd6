#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "faults/at_one_place.h"

namespace ddpscope {
namespace {
/// Remembers the weight of the layer, to write it when backward is about to begin.
class WeightWrite : public Fault {
 public:
  at::Tensor layer(const LayerCall& call) override {
    weight_ = call.weight;
    return call.run(call.input);
  }
  void before_backward(at::Tensor&) override {
    if (!weight_.defined()) return;
    planted();
    write(weight_);
  }

 private:
  virtual void write(at::Tensor& weight) = 0;
  at::Tensor weight_;
};

class WriteInPlace final : public WeightWrite {
  void write(at::Tensor& weight) override {
    const c10::NoGradGuard guard;
    weight.mul_(1.01);
  }
};

class WriteByData final : public WeightWrite {
  void write(at::Tensor& weight) override { weight.data().mul_(1.01); }
};

class OverwrittenStatistics final : public Fault {
 public:
  at::Tensor norm(const NormCall& call) override {
    mean_ = call.mean;
    return call.run(call.input);
  }
  void before_backward(at::Tensor&) override {
    if (!mean_.defined()) return;
    planted();
    const c10::NoGradGuard guard;
    mean_.mul_(0.99);
  }

 private:
  at::Tensor mean_;
};

class SingleValue final : public Fault {
 public:
  at::Tensor norm(const NormCall& call) override {
    planted();
    at::Tensor one = call.input;
    for (std::int64_t dim = 0; dim < one.dim(); ++dim) {
      if (dim != 1) one = one.narrow(dim, 0, 1);
    }
    return call.run(one).expand_as(call.input);
  }
};
}  // namespace

std::unique_ptr<Fault> make_weight_overwritten() { return std::make_unique<WriteInPlace>(); }
std::unique_ptr<Fault> make_weight_overwritten_by_data() { return std::make_unique<WriteByData>(); }
std::unique_ptr<Fault> make_statistics_overwritten() {
  return std::make_unique<OverwrittenStatistics>();
}
std::unique_ptr<Fault> make_single_value() { return std::make_unique<SingleValue>(); }

std::unique_ptr<Fault> make_nan_gradient() {
  return at_layer([is_hooked = false](const LayerCall& call) mutable {
    if (!std::exchange(is_hooked, true)) {
      call.weight.register_hook([](const at::Tensor& gradient) {
        return gradient * std::numeric_limits<double>::quiet_NaN();
      });
    }
    return call.run(call.input);
  });
}

std::unique_ptr<Fault> make_dropped_result() {
  return at_layer([](const LayerCall& call) { return at::zeros_like(call.run(call.input)); });
}

std::unique_ptr<Fault> make_result_times_zero() {
  return at_layer([](const LayerCall& call) { return call.run(call.input) * 0; });
}

std::unique_ptr<Fault> make_detached_result() {
  return at_layer([](const LayerCall& call) { return call.run(call.input).detach(); });
}

std::unique_ptr<Fault> make_weight_written_with_grad() {
  return at_layer([](const LayerCall& call) {
    call.weight.mul_(1.01);
    return call.run(call.input);
  });
}

std::unique_ptr<Fault> make_row_written() {
  return at_layer([](const LayerCall& call) {
    at::Tensor result = call.run(call.input);
    result.unbind(0).front().mul_(2);
    return result;
  });
}

std::unique_ptr<Fault> make_unregistered_scale() {
  return at_layer([scale = at::Tensor()](const LayerCall& call) mutable {
    at::Tensor result = call.run(call.input);
    if (!scale.defined()) scale = at::ones({1}, result.options()).set_requires_grad(true);
    return result * scale;
  });
}

std::unique_ptr<Fault> make_plain_constant() {
  return at_layer([constant = at::Tensor()](const LayerCall& call) mutable {
    if (!constant.defined()) constant = at::full({1}, 1.01, call.input.options());
    return call.run(call.input * constant);
  });
}

std::unique_ptr<Fault> make_reassigned_weight() {
  return at_layer([is_done = false](const LayerCall& call) mutable {
    if (!std::exchange(is_done, true)) {
      const at::Tensor fresh = 0.05 * at::randn(call.weight.sizes(), call.weight.options());
      call.weight = fresh.detach().set_requires_grad(true);
    }
    return call.run(call.input);
  });
}

std::unique_ptr<Fault> make_wrong_width() {
  return at_layer([](const LayerCall& call) {
    const std::int64_t width = call.input.size(call.features);
    return call.run(call.input.narrow(call.features, 0, width - 1));
  });
}

std::unique_ptr<Fault> make_huge_tensor() {
  return at_layer([](const LayerCall& call) {
    constexpr std::int64_t kElements = std::int64_t{1} << 50;  // beyond any address space
    const at::Tensor huge = at::empty({kElements}, call.input.options());
    return call.run(call.input);
  });
}

}  // namespace ddpscope
