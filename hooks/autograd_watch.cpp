#include "hooks/autograd_watch.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include "hooks/batch_watch.h"
#include "hooks/capture.h"
#include "hooks/device_gradients.h"
#include "hooks/device_waits.h"
#include "hooks/doing.h"
#include "hooks/gradient_scaling.h"
#include "hooks/gradient_watch.h"
#include "hooks/graph_history.h"
#include "hooks/graph_samples.h"
#include "hooks/idle_rest.h"
#include "hooks/interposed.h"
#include "hooks/judged_outputs.h"
#include "hooks/left_open.h"
#include "hooks/loop_phase.h"
#include "hooks/model_discovery.h"
#include "hooks/near_tls.h"
#include "hooks/op_inputs.h"
#include "hooks/pending_gradients.h"
#include "hooks/reduced_gradients.h"
#include "hooks/reducer_watch.h"
#include "hooks/replica_bits.h"
#include "hooks/rested_gradients.h"
#include "hooks/returned_gradients.h"
#include "hooks/step_wait.h"
#include "hooks/survey_outputs.h"
#include "hooks/taken_gradients.h"
#include "hooks/update_order.h"
#include "hooks/write_scope.h"
#include "model/hot_code.h"

namespace ddpscope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;

DDPSCOPE_NEAR thread_local int calls = 0;  // of backward that this thread is inside of

struct Execute;
using InterposedExecute =
    Interposed<Execute, variable_list(Engine*, const edge_list&, const variable_list&, bool, bool,
                                      bool, const edge_list&)>;

double number_in(const variable_list& root_gradients) {
  if (root_gradients.size() != 1 || !root_gradients[0].defined()) return 1;
  return number_of(root_gradients[0]).value_or(1);
}

void tell_roots(Capture& capture, const edge_list& roots, BackwardEvent& event) {
  const SurveyOutputs& outputs = SurveyOutputs::here();
  for (const auto& root : roots) {
    const auto* leaf = dynamic_cast<AccumulateGrad*>(root.function.get());
    event.roots_are_leaves = leaf != nullptr && leaf->variable.defined();
    const TensorId id = event.roots_are_leaves ? capture.announce(leaf->variable)
                                               : outputs.made_by(root.function.get());
    if (id != 0) event.roots.push_back(id);
  }
  if (event.roots_are_leaves) event.stack = doing_now(capture).stack;
}

constexpr std::size_t kMaxAsked = 16;  // who asks for more asks for parameters
constexpr int kMaxParts = 4;

/// The leaf that an edge leads to by nodes of one input alone, as of a part of it; null if none.
const AccumulateGrad* leaf_behind(const Edge& edge) {
  const Node* node = edge.function.get();
  for (int i = 0; node != nullptr && i <= kMaxParts; ++i) {
    if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node)) return leaf;
    if (node->num_outputs() != 1) return nullptr;
    node = node->next_edge(0).function.get();
  }
  return nullptr;
}

void tell_asked(Capture& capture, const edge_list& inputs, BackwardEvent& event) {
  if (inputs.size() > kMaxAsked) return;
  for (const Edge& input : inputs) {
    const AccumulateGrad* leaf = leaf_behind(input);
    if (leaf != nullptr && leaf->variable.defined()) {
      event.asked.push_back(capture.announce(leaf->variable));
    }
  }
}

/// How the engine was called.
struct EngineCall {
  bool keep_graph = false;
  bool create_graph = false;
  bool accumulates = true;  ///< false: autograd::grad()
  /// It runs, and frees, what leads to these alone; all that there is where it is empty.
  const edge_list* inputs = nullptr;
  const variable_list* root_gradients = nullptr;
};

DDPSCOPE_HOT void see_accumulating(Capture& capture) {
  ReplicaBits::see_backward(capture);
  ReducedGradients::see_backward(capture);
  BatchWatch::see_backward(capture);
  UpdateOrder::see_backward(capture.writes());
  RestedGradients::see_backward();
  PendingGradients::see_backward();
  device_gradients().begin(capture);
}

DDPSCOPE_HOT void begin_backward(Capture& capture, const edge_list& roots,
                                 const EngineCall& asked) {
  LoopPhase::enter(Phase::kBackward);
  see_trained();
  DeviceWaits::see_backward();
  StepWait::see_backward(capture);
  if (Capture::watch() == Watch::kNothing) {
    if (asked.accumulates && capture.options().compares_ranks) ReplicaBits::see_backward(capture);
    return;
  }
  attach_discovered(capture);
  if (asked.accumulates) {
    see_accumulating(capture);
  } else {
    ReducedGradients::see_returning();
  }
  tell_scaling(capture);
  BackwardEvent event{.at = capture.marker().now(),
                      .surveyed = capture.marker().surveying(),
                      .accumulates = asked.accumulates,
                      .last = asked.accumulates ? TakenGradients::take() : GradientFate::kUnknown,
                      .keep_graph = asked.keep_graph,
                      .creates_graph = asked.create_graph,
                      .roots_alive = roots_alive(capture)};
  remember_roots(capture, roots, {asked.keep_graph, !asked.inputs->empty()});
  if (!asked.accumulates) tell_asked(capture, *asked.inputs, event);
  GraphSamples::here().see_backward(roots, event);
  event.walked = event.surveyed || graph_grows();
  if (event.walked) event.graph = graph_shape(capture, roots);
  if (event.surveyed) {
    tell_roots(capture, roots, event);
    event.root_gradient = number_in(*asked.root_gradients);
    event.alive_outputs = capture.tensors().alive(SurveyOutputs::here().take());
  } else {
    event.graph.leaves.clear();
  }
  take_leaves_hash();
  capture.put_large(std::move(event));
}

DDPSCOPE_HOT void end_backward(Capture& capture, bool accumulates, bool threw) {
  const Stamp now = capture.marker().now();
  const bool watched = Capture::watch() != Watch::kNothing;
  if (watched || hook_state.device_values.load(std::memory_order_relaxed)) {
    device_gradients().end(capture, threw);
  }
  if (watched) {
    capture.put(BackwardEndEvent{.at = now, .threw = threw});
    backward_ended(capture);
  }
  IdleRest::see_backward(capture, accumulates);
  if (threw) return;
  if (hook_state.has_reducers.load(std::memory_order_relaxed)) tell_unfinished_reducers(capture);
  LoopPhase::enter(Phase::kReduce);
  if (!accumulates) return;
  if (watched) capture.marker().leaves_reached(take_leaves_hash());
  capture.clock_moved(now, capture.marker().backward_ended());
  StepWait::drop();  // where a backward ends a step, the update of the parameters follows
}

void tell_nested(Capture& capture, int depth) {
  const auto node = torch::autograd::get_current_node();
  capture.put_large(NestedBackwardEvent{.at = capture.marker().now(),
                                        .depth = depth,
                                        .node = node == nullptr ? "" : node->name(),
                                        .module = ModuleCalls::innermost()});
}

// Reports the end of a backward also when it is left by an exception, without catching it.
class OutermostBackward {
 public:
  DDPSCOPE_HOT OutermostBackward(const edge_list& roots, const EngineCall& asked)
      : roots_(roots),
        accumulates_(asked.accumulates),
        calls_before_(calls),
        is_nested_(inside_backward()) {
    calls = backward_depth() + 1;
    if (!is_nested_) outermost = this;
    as_guest("graph", [&](Capture& capture) {
      if (!is_nested_) {
        begin_backward(capture, roots, asked);
      } else if (asked.accumulates) {
        tell_nested(capture, calls);
      }
    });
  }
  DDPSCOPE_HOT ~OutermostBackward() {
    calls = calls_before_;
    if (is_nested_) return;
    outermost = nullptr;
    RestingWriters::end();
    ended(!returned_);
  }
  /// Before it ends, else it threw. Asking the runtime for that takes longer.
  void returned() noexcept { returned_ = true; }
  DDPSCOPE_HOT void ended(bool threw) const noexcept {
    as_guest("graph", [&](Capture& capture) {
      if (threw) tell_freed(capture, roots_);
      end_backward(capture, accumulates_, threw);
    });
  }
  static thread_local const OutermostBackward* outermost;  // of this thread, while it stands

 private:
  const edge_list& roots_;
  bool accumulates_;
  int calls_before_;
  bool is_nested_;
  bool returned_ = false;
};

thread_local const OutermostBackward* OutermostBackward::outermost = nullptr;

DDPSCOPE_HOT variable_list on_execute(Engine* self, const edge_list& roots,
                                      const variable_list& inputs, bool keep_graph,
                                      bool create_graph, bool accumulate_grad,
                                      const edge_list& outputs) {
  if (Capture::active() == nullptr) start_discovery_session();
  Capture::halt_if_asked();
  variable_list gradients;
  {
    OutermostBackward call(roots, {.keep_graph = keep_graph,
                                   .create_graph = create_graph,
                                   .accumulates = accumulate_grad,
                                   .inputs = &outputs,
                                   .root_gradients = &inputs});
    if (!create_graph) RestingWriters::begin();
    gradients = InterposedExecute::original(self, roots, inputs, keep_graph, create_graph,
                                            accumulate_grad, outputs);
    call.returned();
  }
  if (!accumulate_grad && !create_graph && Capture::watch() != Watch::kNothing) {
    tell_returned_gradients(gradients);
  }
  return gradients;
}
}  // namespace

void walk_loss(const at::Tensor& loss) {
  as_guest("graph", [&](Capture& capture) {
    if (!loss.defined() || loss.grad_fn() == nullptr) return;
    BackwardEvent event{.at = capture.marker().now(), .surveyed = true, .accumulates = false};
    event.graph = graph_shape(capture, {torch::autograd::Edge(loss.grad_fn(), loss.output_nr())});
    capture.put_large(std::move(event));
  });
}

void tell_backward_left_open() noexcept {
  if (const auto* const backward = OutermostBackward::outermost) backward->ended(/*threw=*/true);
}

int backward_depth() noexcept {
  // A thread of the engine runs nodes of a backward that another thread called.
  return calls == 0 && torch::autograd::get_current_node() != nullptr ? 1 : calls;
}

bool inside_own_function() {
  const auto node = torch::autograd::get_current_node();
  return node != nullptr && node->name().starts_with("torch::autograd::CppNode");
}

bool install_autograd_watch() noexcept {
  return InterposedExecute::install(
      "_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_"
      "EEbbbS7_",
      on_execute);
}

}  // namespace ddpscope
