#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <optional>
#include <unordered_map>

#include "hooks/near_tls.h"
#include "hooks/nonfinite_search.h"

namespace ddpscope {

/// Looks at what the nodes of one backward return, up to the first that is not finite. On the stack
/// of the thread that runs it; nodes of other threads are not looked at.
class NodeValues {
 public:
  /// `bad`: the roots are not finite, so no node is at fault. `search` begins where a node turns
  /// out to have saved NaN.
  NodeValues(const torch::autograd::variable_list& roots, bool bad,
             std::optional<NonfiniteSearch>& search);
  ~NodeValues();
  NodeValues(const NodeValues&) = delete;
  NodeValues& operator=(const NodeValues&) = delete;

  /// That of the backward that runs on this thread; null: there is none.
  static NodeValues* here() noexcept { return here_; }

  /// Whether nothing that is not finite was met so far.
  bool are_finite() const noexcept { return !bad_; }
  /// What the running node has saved and reads now.
  void see_saved(const at::Tensor& saved) noexcept;
  /// What the running node returned, or the engine begins with, and where it goes.
  void see_returned(const torch::autograd::edge_list& edges,
                    const torch::autograd::variable_list& gradients);

 private:
  DDPSCOPE_NEAR static inline constinit thread_local NodeValues* here_ = nullptr;

  void tell(const torch::autograd::Node& node, const at::Tensor& gradient);
  void forget_saved() noexcept;
  bool saved_nan() const;

  const torch::autograd::variable_list& roots_;
  bool bad_;
  std::optional<NonfiniteSearch>& search_;
  // Up to what it returned, which the engine asks for next: it has freed its own by then.
  std::array<at::Tensor, 4> saved_;
  std::size_t saved_count_ = 0;
  std::unordered_map<const torch::autograd::Node*, double> incoming_absmax_;
};

bool install_node_values() noexcept;

}  // namespace ddpscope
