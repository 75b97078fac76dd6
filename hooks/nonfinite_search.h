#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/capture.h"
#include "hooks/near_tls.h"
#include "hooks/node_pointer.h"
#include "model/value_event.h"

namespace ddpscope {

/// Looks for the operator that made the root of a backward NaN or Inf, while that backward reads
/// what forward saved. One per such backward, on the stack of its thread.
class NonfiniteSearch {
 public:
  explicit NonfiniteSearch(Capture& capture);
  ~NonfiniteSearch();
  NonfiniteSearch(const NonfiniteSearch&) = delete;
  NonfiniteSearch& operator=(const NonfiniteSearch&) = delete;

  /// The search of the backward that runs on this thread; null: there is none.
  static NonfiniteSearch* here() noexcept { return here_; }

  /// A tensor that the running node has saved.
  void see(const at::Tensor& saved);
  /// Before the backward runs.
  void begin_at(const torch::autograd::variable_list& roots);
  /// Searches from the running node instead of from a root: what it saved has NaN.
  void begin_here();
  /// At the end of the backward, whose roots keep the nodes alive.
  void tell(const torch::autograd::variable_list& roots);

 private:
  DDPSCOPE_NEAR static inline constinit thread_local NonfiniteSearch* here_ = nullptr;

  using Node = torch::autograd::Node;
  struct Result {
    ValueRange values;
    TensorInfo output;
  };
  struct Reads {
    ValueRange values;
    std::optional<double> min;
    int tensors = 0;
    TensorId source = 0;  // the first leaf that is not finite
    ValueRange source_values;
    std::string source_dtype;
  };

  const Result* result_of(const Node& node) const;
  const Reads* reads_of(const Node& node) const;
  bool reads_bad_leaf(const Node& node, NonfiniteOutputEvent& event) const;
  bool is_bad_parameter(const Node& node, NonfiniteOutputEvent& event) const;
  const Node* next_from(const Node& node);
  enum class Suspicion : std::uint8_t { kNone, kUnseen, kPossible, kProven, kCertain };
  Suspicion suspicion_of(const Node& node, int depth);
  bool can_make(const Node& node) const;
  bool has_made(const Node& node) const;
  bool was_zero(const Node& node) const;
  void describe_origin(const Node& node, NonfiniteOutputEvent& event) const;

  void remember_writers(const torch::autograd::edge_list& roots);
  std::string op_of(const Node& node) const;
  const Node* start_of(const torch::autograd::variable_list& roots);

  Capture& capture_;
  NodePointer start_;  // null: a root
  std::map<std::pair<const Node*, std::uint32_t>, Result> results_;
  std::unordered_map<const Node*, Reads> reads_;
  std::unordered_map<const Node*, std::string> writers_;  // through views: a node forgets its own
  std::unordered_map<const Node*, Suspicion> suspicions_;
};

}  // namespace ddpscope
