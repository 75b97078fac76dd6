#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checks/judge.h"
#include "model/step_clock.h"

namespace ddpscope::test {

/// A parameter or buffer of a hand-made model: `fc.weight` is `weight` of the module `fc`.
struct Registered {
  TensorId id = 0;
  std::string path;
  std::vector<std::int64_t> shape = {4};
  bool requires_grad = true;
  bool is_buffer = false;
  std::string dtype = "float32";
  std::string device = "cpu";
};

/// One operator: `inputs` and the ids it returns.
struct Op {
  std::string name;
  std::vector<TensorId> inputs = {};
  std::vector<TensorId> outputs = {};
  ModuleId module = 0;
  bool grad_mode = true;
  bool requires_grad = true;  ///< of the outputs
  bool by_zero = false;
  bool floating = true;  ///< the outputs
  std::vector<double> constants = {};
  double factor = 1;
  std::optional<double> read = {};
  StackId stack = 0;
  std::vector<std::int64_t> shape = {};       ///< of the outputs, if not [8, 32]
  std::vector<std::int64_t> unexpanded = {};  ///< the outputs, where they were expanded
};

/// A training program as capture would see it: it stamps steps and cycles and remembers which
/// gradients were cleared. What the judge found is in `findings`.
class Program {
 public:
  explicit Program(std::string checks = "*", SiteSource* sites = nullptr,
                   std::int64_t world_size = 1)
      : judge_(options(std::move(checks), sites, world_size), sink()) {}

  Findings findings;
  Judge& judge() { return judge_; }
  std::int64_t step_now() const { return clock_.step(); }
  Stamp now() const { return {.step = clock_.step(), .cycle = clock_.cycle(), .thread = thread}; }
  void send(Event event) { judge_.consume(event); }
  /// An event as of now.
  template <class T>
  void send_now(T event) {
    event.at = now();
    if constexpr (std::is_constructible_v<Event, T>) {
      send(std::move(event));
    } else {
      send(std::make_unique<T>(std::move(event)));
    }
  }

  std::uint64_t thread = 1;       ///< that runs what follows
  double wall_ms = 0;             ///< of each cycle
  std::set<std::string> in_eval;  ///< modules that `attach` tells to be in eval mode
  std::map<std::string, std::string> module_types;  ///< by path, where `attach` tells one

  /// The tree of a model: as the program attaches it, or as it is seen when a step has ended.
  void attach(ModelId model, const std::vector<Registered>& tensors, bool attached = false);
  void detach(ModelId model) { send(TreeEndEvent{.at = now(), .model = model}); }
  void loose_module(const std::string& type, std::vector<TensorId> tensors, bool evaluates = false);
  void declare(const std::string& glob, const std::string& kind);
  /// A leaf that no module registers.
  void leaf(TensorId id, std::vector<std::int64_t> shape = {4}, std::string device = "cpu");
  void integer_leaf(TensorId id);
  void leaf_in_storage(TensorId id, std::int64_t elements, std::int64_t offset_bytes = 0);

  void create(OptimizerId optimizer) {
    clock_.optimizer_created();
    send(OptimizerCreatedEvent{now(), optimizer});
  }
  std::string optimizer_type = "torch::optim::SGD";  ///< in the events of members that follow
  std::vector<GroupOptions> group_options;           ///< the same
  void members(OptimizerId optimizer, std::vector<std::vector<TensorId>> groups,
               const std::set<TensorId>& frozen = {});
  /// `create` and `members`.
  void optimizer(OptimizerId optimizer, std::vector<TensorId> members) {
    create(optimizer);
    this->members(optimizer, {std::move(members)});
  }

  void op(const Op& op);
  std::vector<TensorId> roots;  ///< of the backward calls that follow
  bool roots_are_leaves = false;
  double root_gradient = 1;
  GradientFate last_gradients = GradientFate::kLeft;
  std::vector<TensorId> old_leaves;                ///< of leaves, those that older graphs read
  std::map<TensorId, std::uint64_t> gradients_in;  ///< storages of gradients, where they are told
  std::function<void()> in_backward;  ///< what the next backward sends besides, before its end
  /// A backward that gives these leaves a gradient.
  void backward(const std::vector<TensorId>& leaves, std::vector<TensorId> alive = {});
  void backward_without_survey(const std::vector<TensorId>& leaves);
  /// The function before this leaf returns no gradient.
  void gradient_undefined(TensorId leaf) {
    send(GradientEvent{now(), leaf, GradientBefore::kUndefined, false});
  }
  bool repeats = false;  ///< the steps that follow apply gradients that one has applied
  void step(OptimizerId optimizer, bool with_closure = false);
  /// So many steps in which hooks rest.
  void rest(OptimizerId optimizer, int steps) {
    for (int i = 0; i < steps; ++i) {
      clock_.backward_ended();
      clock_.optimizer_stepped(optimizer);
    }
  }
  void zero_grad(OptimizerId optimizer);
  void clear(const std::vector<TensorId>& leaves, GradientBefore left = GradientBefore::kUndefined);
  /// The program's own code writes these leaves, as an update without an optimizer does.
  void write(const std::vector<TensorId>& leaves) { written_.insert(leaves.begin(), leaves.end()); }
  void drop_events() { send(DroppedEvent{3}); }
  void exit() { send(ExitEvent{now()}); }

  /// The findings with this id.
  Findings with_id(std::string_view id) const;

 private:
  static JudgeOptions options(std::string checks, SiteSource* sites, std::int64_t world_size);
  Judge::Sink sink() {
    return [this](const Finding& finding) { findings.push_back(finding); };
  }
  void accumulate(const std::vector<TensorId>& leaves);
  void end_cycle(const Stamp& at, StepClock::Change change);

  StepClock clock_;
  Judge judge_;
  std::map<TensorId, TensorInfo> tensors_;
  std::map<TensorId, GradientBefore> gradients_;
  std::set<TensorId> written_;
  std::map<OptimizerId, std::vector<std::vector<TensorId>>> members_;
  std::map<OptimizerId, std::set<TensorId>> frozen_;
};

/// The value of a fact, or a default-made one.
template <class T>
T fact_of(const Finding& finding, std::string_view key) {
  for (const Fact& fact : finding.facts) {
    if (fact.key == key) return std::get<T>(fact.value);
  }
  return T{};
}

inline std::string cause_of(const Finding& finding) {
  return fact_of<std::string>(finding, "cause");
}

}  // namespace ddpscope::test
