#include "tests/support/events.h"

namespace ddpscope::test {
namespace {
std::int64_t elements(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

TensorInfo info(TensorId id, const std::vector<std::int64_t>& shape) {
  return {.id = id,
          .shape = shape,
          .dtype = "float32",
          .device = "cpu",
          .elements = elements(shape),
          .storage = id,
          .requires_grad = true,
          .is_leaf = true,
          .floating = true};
}

std::string module_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}
}  // namespace

JudgeOptions Program::options(std::string checks, SiteSource* sites, std::int64_t world_size) {
  JudgeOptions options;
  options.world_size = world_size;
  options.checks = std::move(checks);
  options.sources = {
      "tree",        "forward",       "op",          "graph",  "gradient",   "optimizer", "error",
      "training_op", "zero_gradient", "archive",     "buffer", "write",      "saved",     "value",
      "target",      "loader",        "convolution", "wait",   "collective", "reducer",   "batch"};
  options.sites = sites;
  return options;
}

void Program::attach(ModelId model, const std::vector<Registered>& tensors, bool attached) {
  auto tree = std::make_unique<TreeEvent>();
  tree->at = now();
  tree->model = model;
  tree->attached = attached;
  tree->label = model == 1 ? "net" : "net" + std::to_string(model);
  std::set<std::string> modules = {""};
  for (const Registered& registered : tensors) {
    TensorInfo described = info(registered.id, registered.shape);
    described.requires_grad = registered.requires_grad;
    described.dtype = registered.dtype;
    described.device = registered.device;
    tensors_[registered.id] = described;
    const std::string module = module_of(registered.path);
    modules.insert(module);
    tree->tensors.push_back({.module_path = module,
                             .name = registered.path.substr(module.empty() ? 0 : module.size() + 1),
                             .is_buffer = registered.is_buffer,
                             .tensor = described});
  }
  ModuleId id = model * 1000;
  for (const std::string& path : modules)
    tree->modules.push_back({.id = id++,
                             .path = path,
                             .type = module_types.contains(path) ? module_types.at(path) : "",
                             .training = !in_eval.contains(path)});
  send(std::move(tree));
}

void Program::loose_module(const std::string& type, std::vector<TensorId> tensors, bool evaluates) {
  send(std::make_unique<LooseModuleEvent>(LooseModuleEvent{.at = now(),
                                                           .module = 9,
                                                           .type = type,
                                                           .evaluates = evaluates,
                                                           .tensors = std::move(tensors)}));
}

void Program::declare(const std::string& glob, const std::string& kind) {
  send(std::make_unique<DeclarationEvent>(
      DeclarationEvent{.model = 1, .path_glob = glob, .kind = kind}));
}

void Program::leaf(TensorId id, std::vector<std::int64_t> shape, std::string device) {
  TensorInfo described = info(id, shape);
  described.device = std::move(device);
  tensors_[id] = described;
  send(std::make_unique<TensorEvent>(TensorEvent{now(), described}));
}

void Program::integer_leaf(TensorId id) {
  TensorInfo described = info(id, {4});
  described.floating = false;
  send(std::make_unique<TensorEvent>(TensorEvent{now(), described}));
}

void Program::leaf_in_storage(TensorId id, std::int64_t elements, std::int64_t offset_bytes) {
  TensorInfo described = info(id, {elements});
  described.storage = 7;
  described.storage_offset_bytes = offset_bytes;
  send(std::make_unique<TensorEvent>(TensorEvent{now(), described}));
}

void Program::members(OptimizerId optimizer, std::vector<std::vector<TensorId>> groups,
                      const std::set<TensorId>& frozen) {
  auto event = std::make_unique<OptimizerMembersEvent>();
  event->at = now();
  event->optimizer = optimizer;
  event->type = optimizer_type;
  event->options = group_options;
  for (const auto& group : groups) {
    auto& members = event->groups.emplace_back();
    for (const TensorId id : group) {
      members.push_back({id, !frozen.contains(id), gradients_.contains(id)});
    }
  }
  members_[optimizer] = std::move(groups);
  frozen_[optimizer] = frozen;
  send(std::move(event));
}

void Program::op(const Op& op) {
  auto event = std::make_unique<OpEvent>();
  event->at = now();
  event->op = op.name;
  event->module = op.module;
  event->grad_mode = op.grad_mode;
  event->by_zero = op.by_zero;
  event->inputs = op.inputs;
  event->constants = op.constants;
  event->factor = op.factor;
  event->read = op.read;
  event->stack = op.stack;
  for (const TensorId id : op.outputs) {
    TensorInfo output = info(id, {8, 32});
    output.is_leaf = false;
    output.requires_grad = op.requires_grad && op.grad_mode;
    output.floating = op.floating;
    if (!op.shape.empty()) {
      output.shape = op.shape;
      output.elements = elements(op.shape);
    }
    output.unexpanded = op.unexpanded;
    if (tensors_.contains(id)) output = tensors_.at(id);
    event->outputs.push_back(output);
  }
  send(std::move(event));
}

void Program::accumulate(const std::vector<TensorId>& leaves) {
  for (const TensorId leaf : leaves) {
    const auto known = gradients_.find(leaf);
    const auto before = known == gradients_.end() ? GradientBefore::kUndefined : known->second;
    const auto storage = gradients_in.find(leaf);
    const bool written = written_.erase(leaf) > 0;
    send(GradientEvent{.at = now(),
                       .tensor = leaf,
                       .before = before,
                       .outlived_update = written && before == GradientBefore::kKept,
                       .gradient_storage = storage == gradients_in.end() ? 0 : storage->second});
    gradients_[leaf] = GradientBefore::kKept;
  }
  if (const auto send_more = std::exchange(in_backward, nullptr)) send_more();
  const Stamp at = now();
  send(BackwardEndEvent{.at = at});
  end_cycle(at, clock_.backward_ended());
}

void Program::backward(const std::vector<TensorId>& leaves, std::vector<TensorId> alive) {
  send(std::make_unique<BackwardEvent>(
      BackwardEvent{.at = now(),
                    .surveyed = true,
                    .walked = true,
                    .last = last_gradients,
                    .roots = roots,
                    .roots_are_leaves = roots_are_leaves,
                    .root_gradient = root_gradient,
                    .stack = roots_are_leaves ? 90U : 0U,
                    .graph = {.leaves = leaves, .old_leaves = old_leaves},
                    .alive_outputs = std::move(alive)}));
  accumulate(leaves);
}

void Program::backward_without_survey(const std::vector<TensorId>& leaves) {
  auto event = std::make_unique<BackwardEvent>();
  event->at = now();
  send(std::move(event));
  accumulate(leaves);
}

void Program::step(OptimizerId optimizer, bool with_closure) {
  members(optimizer, members_[optimizer], frozen_[optimizer]);
  const Stamp at = now();
  const StepClock::Change change = clock_.optimizer_stepped(optimizer);
  send(OptimizerStepEvent{
      .at = at, .optimizer = optimizer, .with_closure = with_closure, .repeated = repeats});
  end_cycle(at, change);
}

void Program::end_cycle(const Stamp& at, StepClock::Change change) {
  if (change.cycle_ended) send(CycleEndEvent{.at = at, .wall_ms = wall_ms});
}

void Program::zero_grad(OptimizerId optimizer) {
  send(ZeroGradEvent{.at = now(), .optimizer = optimizer});
  for (const auto& group : members_[optimizer]) clear(group);
}

void Program::clear(const std::vector<TensorId>& leaves, GradientBefore left) {
  for (const TensorId leaf : leaves) {
    if (left == GradientBefore::kUndefined) {
      gradients_.erase(leaf);
    } else {
      gradients_[leaf] = left;
    }
  }
}

Findings Program::with_id(std::string_view id) const {
  Findings matching;
  std::ranges::copy_if(findings, std::back_inserter(matching),
                       [id](const Finding& finding) { return finding.id == id; });
  return matching;
}

}  // namespace ddpscope::test
