#include "checks/run_state.h"

#include <algorithm>
#include <memory>

namespace ddpscope {
namespace {
constexpr std::int64_t kStepsThatShowAll = 32;
constexpr std::size_t kMaxLooseModules = 65536;

template <class T>
const T& body(const T& event) {
  return event;
}
template <class T>
const T& body(const std::unique_ptr<T>& event) {
  return *event;
}
}  // namespace

void RunState::apply(const Event& event) {
  ++event_number_;
  std::visit([this](const auto& held) { on(body(held)); }, event);
}

void RunState::begin_cycle_if_new(const Stamp& at) {
  if (at.cycle != now_.cycle) models_with_gradient_.clear();
  now_ = at;
}

void RunState::on(const GradientEvent& event) {
  begin_cycle_if_new(event.at);
  TensorState& tensor = tensors_.get(event.tensor, event_number_);
  reach(tensor);
  if (tensor.gradients > 0 && event.at.cycle == tensor.gradient_cycle + 1) ++tensor.cycles_kept;
  tensors_.note_storage(tensor, event.storage);
  // Of one buffer both may be parts.
  if (event.gradient_storage != event.storage) tensors_.note_gradient_in(event.gradient_storage);
  if (!event.defined) {
    tensor.undefined_cycle = event.at.cycle;
    return;
  }
  tensor.gradient_cycle = event.at.cycle;
  tensor.was_written |= event.outlived_update;
  ++tensor.gradients;
  for (const Registration& at : tensor.registrations) {
    models_with_gradient_.insert(at.model);
    trained_[at.model] = event.tensor;
  }
}

void RunState::on(const OptimizerStepEvent& event) {
  begin_cycle_if_new(event.at);
  trains_on(event.at.thread);
  trace_.stepped(event.optimizer, event.at.cycle);
  OptimizerState& stepped = optimizer(event.optimizer);
  if (stepped.steps == 0) ++optimizers_stepped_;
  const std::int64_t before = stepped.steps++ > 0 ? stepped.last_step : stepped.first_seen_step;
  stepped.longest_rest = std::max(stepped.longest_rest, event.at.step - before);
  stepped.last_step_cycle = event.at.cycle;
  stepped.last_step = event.at.step;
  stepped.last_step_event = event_number_;
  ++optimizer_steps_;
}

void RunState::on(const ZeroGradEvent& event) {
  begin_cycle_if_new(event.at);
  // An optimizer that was never seen before exists: from here on it is one that never stepped.
  if (event.optimizer != 0) ++optimizer(event.optimizer).clears;
}

void RunState::on(const ZeroGradientsEvent& event) {
  begin_cycle_if_new(event.at);
  for (const ZeroGradient& zero : event.members) {
    TensorState* tensor = tensors_.find(zero.tensor);
    const bool is_filled = tensor != nullptr && tensor->gradients == 0 && tensor->reached_step < 0;
    if (is_filled) tensor->zero_filled_cycle = event.at.cycle;
  }
}

void RunState::on(const OptimizerCreatedEvent& event) {
  begin_cycle_if_new(event.at);
  optimizer(event.optimizer).creation_seen = true;
}

void RunState::on(const OptimizerStateEvent& event) {
  begin_cycle_if_new(event.at);
  optimizer(event.optimizer).has_begun = true;
}

void RunState::on(const BackwardEndEvent& event) {
  begin_cycle_if_new(event.at);
  trace_.backward_ended();
}

void RunState::on(const TreeEndEvent& event) {
  begin_cycle_if_new(event.at);
  was_detached_ = !event.died;
  for (const RegisteredTensor& registered : models_[event.model].tensors) {
    if (TensorState* tensor = tensors_.find(registered.tensor.id)) tensor->left_with_root = true;
  }
  tensors_.remove_registrations(event.model);
  tensors_.forget_paths();
  std::erase_if(module_places_,
                [&](const auto& entry) { return entry.second.model == event.model; });
  models_.erase(event.model);
  trained_.erase(event.model);
}

// A module of two models stays where it was; another one, at the address of one that died, does
// not.
void RunState::place_modules(const TreeEvent& event) {
  std::set<ModelId> sharing;
  for (const RegisteredTensor& registered : event.tensors) {
    const TensorState* tensor = tensors_.find(registered.tensor.id);
    if (tensor == nullptr) continue;
    for (const Registration& at : tensor->registrations) sharing.insert(at.model);
  }
  for (const ModuleInfo& module : event.modules) {
    const ModulePlace place{event.model, module.path};
    const auto [known, is_new] = module_places_.try_emplace(module.id, place);
    if (!is_new && !sharing.contains(known->second.model)) known->second = place;
  }
}

void RunState::on(const TreeEvent& event) {
  begin_cycle_if_new(event.at);
  std::erase_if(module_places_,
                [&](const auto& entry) { return entry.second.model == event.model; });
  place_modules(event);
  tensors_.remove_registrations(event.model);
  // What a model holds when it is seen first may have been registered long before.
  const std::int64_t registered_at = models_.contains(event.model) ? event_number_ : 1;
  for (const RegisteredTensor& registered : event.tensors) {
    const TensorState* known = tensors_.find(registered.tensor.id);
    const bool was_trainable = known != nullptr && known->info.requires_grad;
    TensorState& tensor = tensors_.introduce(registered.tensor, event_number_);
    tensor.is_buffer = registered.is_buffer;
    tensor.left_with_root = false;
    tensor.info.requires_grad = was_trainable;
    set_requires_grad(tensor, registered.tensor.requires_grad);
    tensors_.add_registration(
        tensor,
        {.model = event.model, .module_path = registered.module_path, .name = registered.name},
        registered_at);
  }
  models_[event.model] = {
      .id = event.model, .label = event.label, .modules = event.modules, .tensors = event.tensors};
  declarations_.see(event.model, event.modules, event.tensors);
}

void RunState::on(const LooseModuleEvent& event) {
  begin_cycle_if_new(event.at);
  for (const TensorId id : event.tensors) {
    if (loose_modules_.size() >= kMaxLooseModules) return;
    loose_modules_[id] = {
        .type = event.type, .evaluates = event.evaluates, .is_shared = event.is_shared};
  }
}

void RunState::on(const TensorEvent& event) {
  begin_cycle_if_new(event.at);
  tensors_.introduce(event.tensor, event_number_);
}

void RunState::on(const OpEvent& event) {
  begin_cycle_if_new(event.at);
  trace_.add(event, path_of(event));
}

void RunState::on(const BackwardEvent& event) {
  begin_cycle_if_new(event.at);
  trains_on(event.at.thread);
  // What was an input of an older step is not used in this one.
  for (const TensorId id : event.graph.old_leaves) {
    tensors_.get(id, event_number_).reached_step = now_.step;
  }
  for (const TensorId id : event.asked) tensors_.get(id, event_number_).is_asked = true;
  for (const TensorId id : event.graph.leaves) reach(tensors_.get(id, event_number_));
  trace_.backward_began(event);
}

void RunState::on(const OptimizerMembersEvent& event) {
  begin_cycle_if_new(event.at);
  OptimizerState& state = optimizer(event.optimizer);
  std::vector<TensorId> members_before;
  for (const auto& group : state.groups) {
    for (const OptimizerMember& member : group) {
      TensorState* tensor = tensors_.find(member.tensor);
      if (tensor == nullptr) continue;
      std::erase(tensor->owners, event.optimizer);
      members_before.push_back(member.tensor);
    }
  }
  state.type = event.type.substr(event.type.rfind(':') + 1);
  state.of_libtorch = event.type.starts_with("torch::optim::");
  state.name = event.name;
  state.groups = event.groups;
  state.options = event.options;
  state.members_known = true;
  for (const auto& group : event.groups) {
    for (const OptimizerMember& member : group) {
      TensorState& tensor = tensors_.get(member.tensor, event_number_);
      if (std::ranges::find(tensor.owners, event.optimizer) == tensor.owners.end()) {
        tensor.owners.push_back(event.optimizer);
      }
      tensors_.note_storage(tensor, member.storage);
      if (member.storage != 0) tensor.info.storage_offset_bytes = member.storage_offset_bytes;
      set_requires_grad(tensor, member.requires_grad);
    }
  }
  for (const TensorId id : members_before) let_go(id);
}

// Where the program put another one in its place, no backward reaches it any more.
void RunState::let_go(TensorId former_member) {
  TensorState* tensor = tensors_.find(former_member);
  if (tensor == nullptr || !tensor->registrations.empty() || !tensor->owners.empty()) return;
  tensor->reached_steps = 0;
  std::erase(repeated_leaves_, former_member);
}

void RunState::on(const OptimizerRatesEvent& event) {
  begin_cycle_if_new(event.at);
  optimizer(event.optimizer).options = event.options;
}

void RunState::reach(TensorState& tensor) {
  if (tensor.reached_step == now_.step) return;
  tensor.reached_step = now_.step;
  if (++tensor.reached_steps == 2 && tensor.registrations.empty()) {
    repeated_leaves_.push_back(tensor.info.id);
  }
}

void RunState::set_requires_grad(TensorState& tensor, bool requires_grad) {
  if (requires_grad || tensor.info.requires_grad) tensor.trainable_cycle = now_.cycle;
  tensor.info.requires_grad = requires_grad;
}

OptimizerState& RunState::optimizer(OptimizerId id) {
  OptimizerState& state = optimizers_[id];
  state.id = id;
  if (state.first_seen == 0) {
    state.first_seen = event_number_;
    state.first_seen_step = now_.step;
  }
  return state;
}

const ModulePlace* RunState::place_of(ModuleId module) const {
  const auto found = module_places_.find(module);
  return found == module_places_.end() ? nullptr : &found->second;
}

std::optional<std::string> RunState::path_of(const OpEvent& event) const {
  if (const ModulePlace* place = place_of(event.module)) return place->path;
  for (const TensorId id : event.inputs) {
    const TensorState* tensor = tensors_.find(trace_.leaf_behind(id));
    if (tensor != nullptr && !tensor->registrations.empty()) {
      return tensor->registrations.front().module_path;
    }
  }
  return std::nullopt;
}

bool RunState::eligible(const TensorState& tensor) const {
  const bool known = !tensor.registrations.empty() || !tensor.owners.empty();
  if (!known || tensor.is_buffer || !tensor.info.floating) return false;
  return tensor.info.requires_grad || tensor.trainable_cycle == now_.cycle;
}

bool RunState::optimizers_known() const {
  if (optimizer_steps_ >= kStepsThatShowAll) return true;
  return std::ranges::all_of(optimizers_,
                             [](const auto& entry) { return entry.second.creation_seen; });
}

bool RunState::waits_for_first_step(const TensorState& tensor) const {
  return !tensor.owners.empty() && std::ranges::all_of(tensor.owners, [this](OptimizerId id) {
    return optimizers_.at(id).steps == 0;
  });
}

std::int64_t RunState::most_steps() const {
  std::int64_t most = 0;
  for (const auto& [id, optimizer] : optimizers_) most = std::max(most, steps_of(optimizer));
  return most;
}

std::int64_t RunState::steps_of(const OptimizerState& optimizer) const {
  if (optimizer.steps == 0) return 0;
  return std::max(optimizer.steps, (now().step - 1) / optimizers_stepped_);
}

}  // namespace ddpscope
