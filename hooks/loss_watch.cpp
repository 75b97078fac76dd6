#include "hooks/loss_watch.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/device_gradients.h"
#include "hooks/interposed.h"
#include "hooks/loss_targets.h"
#include "hooks/near_tls.h"
#include "hooks/node_values.h"
#include "hooks/nonfinite_search.h"
#include "hooks/value_reader.h"
#include "model/hot_code.h"
#include "model/recorded_steps.h"

namespace ddpscope {
namespace {
using torch::autograd::variable_list;

struct Backward;
using InterposedBackward =
    Interposed<Backward, void(const variable_list&, const variable_list&, std::optional<bool>, bool,
                              const variable_list&)>;

constexpr int kSearches = 8;  // of backwards in a row: the first ones tell, the others follow
DDPSCOPE_NEAR thread_local int nonfinite_in_row = 0;

bool lies_on_device(const variable_list& roots) {
  return std::ranges::any_of(
      roots, [](const at::Tensor& root) { return root.defined() && !root.is_cpu(); });
}

/// Reads the roots of an outermost backward before it runs; searches while it does.
class Roots {
 public:
  DDPSCOPE_HOT explicit Roots(const variable_list& roots) : roots_(roots) {
    if (backward_depth() > 0 || NonfiniteSearch::here() != nullptr) return;
    as_guest("value", [&](Capture& capture) {
      if (!capture.options().values) return;
      if (lies_on_device(roots)) device_gradients().roots(capture, roots);
      tell_loss_targets(capture, roots);
      const bool bad = tell(capture);
      nonfinite_in_row = bad ? nonfinite_in_row + 1 : 0;
      if (nonfinite_in_row == 1) {
        capture.arm();
        capture.wake();
      }
      if (bad && nonfinite_in_row <= kSearches) search_.emplace(capture).begin_at(roots);
      if (reads_values()) nodes_.emplace(roots, bad, search_);
    });
  }
  ~Roots() {
    if (!search_.has_value()) return;
    as_guest("value", [&](Capture&) { search_->tell(roots_); });
  }
  Roots(const Roots&) = delete;
  Roots& operator=(const Roots&) = delete;

 private:
  // Whether one is not finite. One number costs next to nothing and is looked at in every cycle.
  DDPSCOPE_HOT bool tell(Capture& capture) const {
    bool bad = false;
    for (const at::Tensor& root : roots_) {
      if (const auto value = number_in(root)) {
        const bool is_finite = std::isfinite(*value);
        bad |= !is_finite;
        const Stamp now = capture.marker().now();
        if (is_finite && Capture::watch() == Watch::kNothing && !is_step_recorded(now)) continue;
        capture.put(LossEvent{.at = now, .loss = capture.id_of(root), .value = *value});
      } else if (reads_values()) {
        bad |= !range_of(root).is_finite();
      }
    }
    return bad;
  }

  const variable_list& roots_;
  std::optional<NonfiniteSearch> search_;
  std::optional<NodeValues> nodes_;
};

DDPSCOPE_HOT void on_backward(const variable_list& roots, const variable_list& gradients,
                              std::optional<bool> keep_graph, bool create_graph,
                              const variable_list& inputs) {
  const Roots read(roots);
  InterposedBackward::original(roots, gradients, keep_graph, create_graph, inputs);
}
}  // namespace

bool install_loss_watch() noexcept {
  return InterposedBackward::install(
      "_ZN5torch8autograd8backwardERKSt6vectorIN2at6TensorESaIS3_EES7_St8optionalIbEbS7_",
      on_backward);
}

}  // namespace ddpscope
