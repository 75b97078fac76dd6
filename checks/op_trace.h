#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checks/tensor_table.h"
#include "model/backward_event.h"
#include "model/op_event.h"

namespace ddpscope {

/// The deepest module below which both paths lie; "" is the root.
std::string common_path(std::string_view a, std::string_view b);

/// Follows leaves through the surveyed operators of the step in progress and writes down in their
/// `TensorUse` how they were read and, where a backward did not reach them, where their path ends.
class OpTrace {
 public:
  explicit OpTrace(TensorTable& tensors) : tensors_(tensors) {}

  struct Output {
    TensorId id = 0;
    std::vector<std::int64_t> shape;
    bool requires_grad = false;
    bool floating = false;
    std::int64_t bytes = 0;
    std::vector<std::int64_t> unexpanded = {};  ///< as in `TensorInfo`
  };
  /// An operator, or `data()`, which is none.
  struct Record {
    std::string op;
    std::string path;  ///< of the module that ran it; empty: the root, or not known
    ModuleId module = 0;
    std::uint64_t thread = 0;
    StackId stack = 0;
    bool grad_mode = true;
    bool by_zero = false;
    std::optional<std::int64_t> dim = {};  ///< over which a softmax normalises
    std::vector<TensorId> inputs = {};     ///< those whose values it reads
    std::vector<Output> outputs = {};
  };

  /// `path`: the module that ran the operator, if one is registered for it.
  void add(const OpEvent& event, const std::optional<std::string>& path);
  void backward_began(const BackwardEvent& event);
  void backward_ended() { trained_ = true; }
  /// Of its parameters, what the last backward told is final.
  void stepped(OptimizerId optimizer, std::int64_t cycle);
  void clear();

  /// The leaf that a tensor of this step is a view of; the tensor itself if it is none.
  TensorId leaf_behind(TensorId id) const;
  /// The operator that made a tensor in this step, and the module that ran it.
  struct Maker {
    std::string op;
    std::string path;  ///< empty: the root, or not known
  };
  std::optional<Maker> maker_of(TensorId id) const;
  /// The same as a whole; null if no operator of this step made it.
  const Record* record_of(TensorId id) const;
  /// What made or wrote it before this one of `records()` wrote it.
  const Record* record_before(const Record& writer, TensorId id) const;
  const std::vector<Record>& records() const { return records_; }
  const std::vector<std::size_t>& consumers_of(TensorId id) const;
  /// Tensors of the step before that operators of this one read, as a sample that is used again,
  /// with the leaves behind them that this step neither read nor, when its backward began, reached.
  const std::map<TensorId, std::vector<TensorId>>& carried() const { return carried_; }
  /// The trainable leaves that operators of this step read.
  const std::set<TensorId>& used_leaves() const { return used_leaves_; }
  /// What the last operator of a thread returned, if it ran in this step.
  std::vector<TensorId> last_outputs(const Stamp& at) const;
  /// Whether it stands for a number that was read from a tensor, and not for a tensor.
  static bool is_number(TensorId id) { return id >= kFirstNumber; }
  std::int64_t last_surveyed_cycle() const { return last_surveyed_cycle_; }

 private:
  static constexpr TensorId kFirstNumber = TensorId{1} << 63;
  struct Neighbours {
    std::optional<std::string> before;
    std::vector<TensorId> waiting;  ///< unregistered leaves used since
  };
  void turn_to(std::int64_t step);
  std::unordered_map<TensorId, std::vector<TensorId>> sources_of_carriers() const;
  std::vector<TensorId> leaves_before(TensorId carried) const;
  std::unordered_set<TensorId> leaves_awaiting_backward() const;
  void follow_carried(const std::unordered_set<TensorId>& alive);
  void index(const OpEvent& event, const std::string& path);
  void index_data(const OpEvent& event, const std::string& path);
  bool reads_parameter(const OpEvent& event) const;
  void index_numbers(const OpEvent& event, Record& record);
  void keep(Record record);
  const Record* maker_up_to(std::size_t end, TensorId id) const;
  bool note_views(const OpEvent& event, TensorId leaf);
  void note_writes(const OpEvent& event);
  /// The parameter that an average or a copy of parameters moves `written`, output number `place`,
  /// towards; 0: it took something else as well, as a gradient.
  TensorId followed_in(const OpEvent& event, std::size_t place, const TensorState& written) const;
  /// The registered tensor that it is a view of, or whose memory it has; null: none.
  TensorState* registered_behind(TensorId id, const TensorInfo& memory) const;
  void note_uses(const OpEvent& event, const std::optional<std::string>& path);
  void place(TensorState& leaf, const OpEvent& event, const std::optional<std::string>& path);
  std::optional<PathEnd> path_end(TensorId leaf, const std::unordered_set<TensorId>& alive) const;
  std::optional<std::int64_t> bytes_before_zero(TensorId leaf) const;
  std::vector<TensorId> differentiable_next(TensorId id) const;
  bool enters_gradient_path(TensorId id) const;
  const Record* cut_after(TensorId id) const;

  TensorTable& tensors_;
  std::int64_t step_ = -1;
  std::int64_t last_surveyed_cycle_ = 0;
  bool trained_ = false;
  bool some_by_zero_ = false;
  std::vector<Record> records_;
  std::unordered_map<TensorId, std::vector<std::size_t>> consumers_;
  std::unordered_map<TensorId, std::size_t> producer_;
  std::unordered_map<TensorId, TensorId> views_;
  std::unordered_map<std::uint64_t, TensorId> carriers_;  ///< by memory, what has a gradient path
  std::map<double, TensorId> numbers_;                    ///< that were read from tensors
  std::set<TensorId> used_leaves_;
  std::unordered_set<TensorId> leaf_roots_;  ///< of the backward that began last
  std::map<std::uint64_t, Neighbours> threads_;
  std::unordered_map<TensorId, std::vector<TensorId>> earlier_sources_;  ///< of the step before
  std::map<TensorId, std::vector<TensorId>> carried_;
  std::size_t backward_at_ = 0;  ///< how many records there were when the last backward began
  std::set<TensorId> ended_;     ///< leaves that the last backward did not reach
};

}  // namespace ddpscope
