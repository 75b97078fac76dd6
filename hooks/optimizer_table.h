#pragma once

#include <torch/optim.h>

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/near_tls.h"
#include "hooks/parameter_updates.h"
#include "hooks/rested_gradients.h"
#include "model/tensor_info.h"

namespace ddpscope {

/// `Adam`, by the options of its groups: until it is built its own class cannot be asked for. Empty
/// where those are of a class that LibTorch does not have.
inline std::string name_by_options(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  const auto& groups = optimizer.param_groups();
  if (groups.empty() || !groups.front().has_options()) return "";
  const OptimizerOptions& options = groups.front().options();
  const std::type_info& type = typeid(options);
  if (type == typeid(SGDOptions)) return "SGD";
  if (type == typeid(AdamOptions)) return "Adam";
  if (type == typeid(AdamWOptions)) return "AdamW";
  if (type == typeid(RMSpropOptions)) return "RMSprop";
  if (type == typeid(AdagradOptions)) return "Adagrad";
  return type == typeid(LBFGSOptions) ? "LBFGS" : "";
}

struct KnownOptimizer {
  OptimizerId id = 0;
  bool has_begun = false;  ///< its first step
  std::optional<std::uint64_t> told_hash;
  std::uint64_t told_rates = 0;
  std::int64_t backwards_at_step = 0;
  std::size_t next_zero_test = 0;
  std::string name;
  ParameterUpdates updates;
  RestedGradients rested;
};

/// What is kept of an optimizer that was built before capture ran.
struct EarlyOptimizer {
  const torch::optim::Optimizer* optimizer = nullptr;
  std::string type;
  std::vector<std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>>> groups;
};

/// Optimizers by address. An address is used again only after `add_param_group` from a constructor,
/// which meets an optimizer without groups and then starts a new entry.
class OptimizerTable {
 public:
  /// There is one.
  static OptimizerTable& get() {
    static auto* const leaked = new OptimizerTable;
    return *leaked;
  }
  static KnownOptimizer& known(const torch::optim::Optimizer& optimizer) {
    return last_asked_ == &optimizer ? *last_known_ : get().entry(optimizer, /*is_new=*/false);
  }
  KnownOptimizer& entry(const torch::optim::Optimizer& optimizer, bool is_new) {
    const std::lock_guard lock(mutex_);
    KnownOptimizer& known = known_[&optimizer];
    if (known.id == 0 || is_new) known = KnownOptimizer{.id = ++last_id_};
    last_asked_ = &optimizer;
    last_known_ = &known;
    return known;
  }

  void remember_early(const torch::optim::Optimizer& optimizer,
                      const torch::optim::OptimizerParamGroup& group, bool is_new) {
    const std::lock_guard lock(mutex_);
    if (is_new)
      std::erase_if(early_, [&](const EarlyOptimizer& e) { return e.optimizer == &optimizer; });
    if (is_new && early_.size() < kMaxEarly) {
      early_.push_back({.optimizer = &optimizer, .type = name_by_options(optimizer)});
    }
    if (early_.empty() || early_.back().optimizer != &optimizer) return;
    auto& members = early_.back().groups.emplace_back();
    for (const at::Tensor& member : group.params()) {
      if (member.defined()) members.emplace_back(member.getIntrusivePtr());
    }
  }
  std::vector<EarlyOptimizer> take_early() {
    const std::lock_guard lock(mutex_);
    return std::exchange(early_, {});
  }

 private:
  /// What this thread asked for last: entries stay where they are.
  DDPSCOPE_NEAR static inline constinit thread_local const torch::optim::Optimizer* last_asked_ =
      nullptr;
  DDPSCOPE_NEAR static inline constinit thread_local KnownOptimizer* last_known_ = nullptr;

  static constexpr std::size_t kMaxEarly = 256;
  std::vector<EarlyOptimizer> early_;
  std::mutex mutex_;
  OptimizerId last_id_ = 0;
  std::unordered_map<const torch::optim::Optimizer*, KnownOptimizer> known_;
};

inline bool ships_with_torch(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  const std::type_info& type = typeid(optimizer);
  return type == typeid(SGD) || type == typeid(Adam) || type == typeid(AdamW) ||
         type == typeid(RMSprop) || type == typeid(Adagrad) || type == typeid(LBFGS);
}

}  // namespace ddpscope
