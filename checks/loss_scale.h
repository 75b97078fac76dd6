#pragma once

#include <optional>
#include <unordered_map>

#include "model/backward_event.h"
#include "model/op_event.h"

namespace ddpscope {

/// The number that the root of a backward was multiplied with last, or its gradient, on survey
/// steps.
class LossScale {
 public:
  void on_op(const OpEvent& event);
  void on_backward(const BackwardEvent& event);
  void clear();

  /// That of the last surveyed backward; 1 where the root is no such product.
  std::optional<double> last() const { return last_; }
  /// Whether it can be of `divisor` that gradients are divided by, as it is doubled and halved: it
  /// may as well be a number of ranks or of micro-batches.
  bool may_be(double divisor) const;
  /// The root of the last surveyed backward is a product or a quotient.
  bool is_product() const { return is_product_; }
  /// `last()`, where the last backward was surveyed.
  std::optional<double> now() const { return is_now_ ? last_ : std::nullopt; }

 private:
  std::unordered_map<TensorId, double> products_;  ///< of this step
  std::optional<double> last_;
  bool is_now_ = false;
  bool is_product_ = false;
};

}  // namespace ddpscope
