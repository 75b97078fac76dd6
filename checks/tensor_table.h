#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/autograd_event.h"

namespace ddpscope {

/// One place at which a tensor is registered.
struct Registration {
  ModelId model = 0;
  std::string module_path = {};
  std::string name = {};
};

/// Where the operators that follow a parameter end without having reached the loss.
struct PathEnd {
  std::string op;
  std::vector<std::int64_t> shape;
  bool differentiable = false;  ///< some use of it recorded a gradient path
  bool alive = false;           ///< the last output still existed when backward began
  bool cut = false;             ///< its values went on without a gradient path
  std::string cut_op = {};      ///< after this operator
  StackId cut_stack = 0;
  bool read_without_grad = false;  ///< what cut it read it itself, with grad mode off
};

/// How surveyed operators read a leaf, views of it included.
struct TensorUse {
  std::int64_t last_cycle = 0;
  std::int64_t last_grad_mode_cycle = 0;  ///< the last with grad mode on
  std::int64_t cycles = 0;                ///< surveyed ones in which it was read
  std::int64_t reads_without_grad = 0;    ///< operators that read it with grad mode off
  /// The last in which its optimizer stepped after it was read, with no backward between.
  std::int64_t no_backward_cycle = 0;
  std::vector<std::string> ops;  ///< distinct, in order of first use, without views
  std::optional<std::string> common_path;
  bool is_inside = false;  ///< operators of a known module read it, not only some beside one
  std::optional<PathEnd> end;
  /// The same of the backward before a step of its own optimizer, which no later one changes.
  std::optional<PathEnd> end_before_step;
  /// Bytes computed from it up to multiplications by zero, if these lie on every path.
  std::optional<std::int64_t> bytes_before_zero;
};

struct TensorState {
  static constexpr std::int64_t kCyclesKept = 8;  ///< of a program that moves it no more

  TensorInfo info;
  std::vector<Registration> registrations;
  std::vector<OptimizerId> owners;
  std::string former_path;  ///< where it was registered last, once nothing registers it
  bool is_buffer = false;
  bool was_written = false;     ///< while it kept a gradient, of which a later backward told
  bool left_with_root = false;  ///< its root was detached or died, and nothing registered it since
  std::int64_t first_seen = 0;  ///< number of the event that introduced it
  std::int64_t registered_at = 0;    ///< number of the event that registered it first
  std::int64_t trainable_cycle = 0;  ///< last cycle in which it was seen to require grad
  std::int64_t gradient_cycle = 0;   ///< last cycle with a defined gradient
  std::int64_t gradients = 0;        ///< defined gradients so far
  bool is_asked = false;             ///< autograd::grad() was called for its gradient
  std::int64_t undefined_cycle = 0;  ///< last cycle in which a function returned nothing for it
  /// The last in which it stepped with zeros alone that the program put there: nothing reached it.
  std::int64_t zero_filled_cycle = 0;
  std::int64_t reached_step = -1;
  std::int64_t reached_steps = 0;  ///< distinct steps in which a backward reached it
  std::string
      written_by;  ///< last operator that wrote it outside of optimizers, since training began
  std::int64_t written_step = -1;  ///< and the step of that
  TensorId follows = 0;    ///< a parameter of which alone that operator took what it wrote; 0: none
  bool is_copied = false;  ///< at some time the program wrote another registered tensor into it
  bool was_moved = false;  ///< set_data() gave it other memory after its first gradient
  /// Gradients in a cycle and in the one before, since then, with the same memory in both.
  std::int64_t cycles_kept = 0;
  TensorUse use;

  /// The program gives it new values with set_data(), step by step.
  bool is_given_data() const { return was_moved && cycles_kept < kCyclesKept; }
  bool is_written() const { return !written_by.empty() || is_given_data(); }
  bool is_owned_by(OptimizerId optimizer) const {
    return std::ranges::find(owners, optimizer) != owners.end();
  }
};

/// All tensors that events spoke of. What is neither registered, owned nor reached in two steps is
/// forgotten, oldest first, beyond a bound.
class TensorTable {
 public:
  TensorState& introduce(const TensorInfo& info, std::int64_t event_number);
  /// Like `introduce`, for an id whose description never came.
  TensorState& get(TensorId id, std::int64_t event_number);
  TensorState* find(TensorId id);
  const TensorState* find(TensorId id) const;
  /// The registered tensor that lives in this storage; 0 if there is none.
  TensorId registered_in(std::uint64_t storage) const;
  /// The one that shares the memory of `tensor`. What set_data() gave back may be that of another
  /// tensor before a backward tells where the parameter lives: that one is alone there.
  TensorId registered_in(const TensorInfo& tensor) const {
    return tensor.alone ? 0 : registered_in(tensor.storage);
  }
  void add_registration(TensorState& tensor, Registration registration, std::int64_t event_number);
  void remove_registrations(ModelId model);
  /// What is registered lives in `storage` now: set_data() may have moved it.
  void note_storage(TensorState& tensor, std::uint64_t storage);
  /// A gradient lies in `storage`: what was registered there left it.
  void note_gradient_in(std::uint64_t storage) { registered_storages_.erase(storage); }
  /// A module, or the one beside which an operator used it, is about to become its `common_path`.
  void note_path(const TensorState& leaf);
  /// The names of modules have changed: where tensors were used is learnt anew.
  void forget_paths();

  /// In order. What is known beside these may be thousands: who asks in each cycle asks here.
  const std::set<TensorId>& registered() const { return registered_; }
  const std::unordered_map<TensorId, TensorState>& all() const { return tensors_; }
  std::unordered_map<TensorId, TensorState>& all() { return tensors_; }

 private:
  static void note_move(TensorState& tensor, std::uint64_t storage);
  void forget_some();

  std::unordered_map<TensorId, TensorState> tensors_;
  std::set<TensorId> registered_;
  std::unordered_map<std::uint64_t, TensorId> registered_storages_;
  std::unordered_map<ModelId, std::vector<TensorId>> of_model_;  ///< what each registers
  std::vector<TensorId> with_path_;                              ///< some may be forgotten
  std::deque<TensorId> loose_;
};

}  // namespace ddpscope
