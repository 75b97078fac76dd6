#include "plugin/sync_norms.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "config/settings.h"
#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "hooks/model_discovery.h"
#include "hooks/training_ops.h"
#include "ops/batch_norm/arguments.h"
#include "ops/batch_norm/override.h"
#include "plugin/log.h"
#include "plugin/norm_comparison.h"
#include "plugin/norm_groups.h"
#include "plugin/norm_layers.h"
#include "plugin/op_watch.h"
#include "plugin/session.h"

namespace ddpscope {
namespace {
using batch_norm::LayerOverRanks;
using batch_norm::OperatorCall;

constexpr char kNoGroup[] =
    "sync_batch_norm: no process group of all ranks is known yet; until the program's first "
    "collective, or until it gives a group, batch norms run over the batch of each rank: see "
    "Attachment::process_group and set_batch_norm_communicator";

enum class NormState : std::uint8_t { kWaiting, kComparing, kOn, kOff };

class SyncNorms {
 public:
  SyncNorms(const Settings& settings, std::int64_t world_size)
      : excluded_(settings.sync_batch_norm_exclude),
        is_quiet_(settings.console == Console::kQuiet),
        world_size_(world_size),
        groups_(world_size) {}

  void attach();
  void detach();
  void end() noexcept;
  void give(const CommunicatorPtr& group) { groups_.give(group); }
  void see(const c10d::Backend& backend) { groups_.see(backend); }
  LayerOverRanks find(const OperatorCall& call);
  NormScope scope_of(const c10::TensorImpl* weight, const c10::TensorImpl* mean);

 private:
  struct Comparison {
    CommunicatorPtr group;
    std::vector<std::string> lines;
  };
  std::optional<Comparison> comparison_before(const OperatorCall& call);
  void settle(bool agreed);
  void tell_agreed();
  void tell_nameless(const Communicator& group);
  NormScope scope_of_nameless() const;
  const NormLayerOfModel* layer_with(const c10::TensorImpl* weight, const c10::TensorImpl* mean);

  const std::string excluded_;
  const bool is_quiet_;
  const std::int64_t world_size_;
  NormGroups groups_;
  std::mutex mutex_;  // guards what follows; never held while ranks wait for each other
  std::optional<batch_norm::Override> override_;
  NormState state_ = NormState::kOff;
  std::vector<NormLayerOfModel> layers_;
  CommunicatorPtr group_;
  bool told_waiting_ = false;
  bool told_nameless_ = false;
  bool told_unsupported_ = false;
};

constinit std::atomic<SyncNorms*> norms{nullptr};

LayerOverRanks find_layer(const OperatorCall& call) {
  SyncNorms* const active = norms.load(std::memory_order_acquire);
  const bool runs = active != nullptr && Session::running() != nullptr;
  return runs ? active->find(call) : LayerOverRanks();
}

NormScope scope_of_norm(const c10::TensorImpl* weight, const c10::TensorImpl* mean) {
  SyncNorms* const active = norms.load(std::memory_order_acquire);
  return active == nullptr ? NormScope::kRank : active->scope_of(weight, mean);
}

void see_backend(const c10d::Backend& backend) {
  if (SyncNorms* const active = norms.load(std::memory_order_acquire)) active->see(backend);
}

std::vector<AttachedRoot> roots_of_thread() {
  // Without an optimizer so far, a discovered model is attached here.
  if (has_discovered() || discovery_waits()) as_guest("tree", attach_discovered);
  Capture* const capture = Capture::active();
  return capture == nullptr ? std::vector<AttachedRoot>() : capture->modules().own_roots();
}

/// What a backward computes again must be what the forward computed, on whatever thread.
bool is_on_thread_of(const NormLayerOfModel& layer) {
  return layer.owner == std::this_thread::get_id() ||
         torch::autograd::get_current_graph_task_id() != -1;
}

bool trains_nameless(const NormLayerOfModel& layer) {
  return layer.is_nameless() && !layer.is_excluded && layer.is_training();
}

void SyncNorms::attach() {
  const std::lock_guard lock(mutex_);
  if (override_.has_value()) return;
  state_ = NormState::kWaiting;
  override_.emplace(find_layer);
  tell_backends(see_backend);
  ask_norms(scope_of_norm);
}

void SyncNorms::detach() {
  const std::vector<AttachedRoot> roots = roots_of_thread();
  const auto attached = norm_layers_of(roots, excluded_);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(layers_, [&attached](const NormLayerOfModel& layer) {
      const auto module = layer.module.lock();
      return std::ranges::none_of(attached, [&module](const NormLayerOfModel& other) {
        return other.module.lock() == module;
      });
    });
    if (roots.empty()) {
      ask_norms(nullptr);
      override_.reset();
    }
  }
  if (roots.empty()) end();
}

void SyncNorms::end() noexcept {
  tell_backends(nullptr);
  groups_.clear();
  CommunicatorPtr group;  // its end may wait for threads of its own
  const std::lock_guard lock(mutex_);
  state_ = NormState::kOff;
  group.swap(group_);
}

const NormLayerOfModel* SyncNorms::layer_with(const c10::TensorImpl* weight,
                                              const c10::TensorImpl* mean) {
  const auto is_it = [&](const NormLayerOfModel& layer) {
    return layer.holds(weight) || layer.holds(mean);
  };
  const auto found = std::ranges::find_if(layers_, is_it);
  return found == layers_.end() ? nullptr : &*found;
}

/// What the ranks compare before this call; only one thread is told to, once.
std::optional<SyncNorms::Comparison> SyncNorms::comparison_before(const OperatorCall& call) {
  const std::lock_guard lock(mutex_);
  if (state_ != NormState::kWaiting) return std::nullopt;
  const std::vector<AttachedRoot> roots = roots_of_thread();
  if (roots.empty()) return std::nullopt;
  const CommunicatorPtr group = groups_.chosen(call.input.device().type());
  if (!group) {
    if (world_size_ > 1 && !std::exchange(told_waiting_, true)) log_warning(kNoGroup);
    return std::nullopt;
  }
  const bool is_nameless = !call.weight.defined() && !call.running_mean.defined();
  if (is_nameless && told_nameless_) return std::nullopt;
  layers_ = norm_layers_of(roots, excluded_);
  if (is_nameless && group->size() > 1) tell_nameless(*group);
  const auto* const layer =
      layer_with(call.weight.unsafeGetTensorImpl(), call.running_mean.unsafeGetTensorImpl());
  if (layer == nullptr || !layer->is_training()) return std::nullopt;
  group_ = group;
  state_ = group->size() == 1 ? NormState::kOff : NormState::kComparing;
  if (state_ == NormState::kOff) return std::nullopt;
  Comparison comparison{.group = group, .lines = {"sync_batch_norm"}};
  for (const NormLayerOfModel& layer : layers_) {
    if (layer.is_layer) comparison.lines.push_back(layer.description);
  }
  return comparison;
}

void SyncNorms::settle(bool agreed) {
  const std::lock_guard lock(mutex_);
  if (state_ != NormState::kComparing) return;
  state_ = agreed ? NormState::kOn : NormState::kOff;
  if (agreed && group_->rank() == 0) tell_agreed();
}

void SyncNorms::tell_agreed() {
  bool excludes = excluded_.empty();
  std::size_t layers = 0, count = 0;
  for (const NormLayerOfModel& layer : layers_) {
    excludes |= layer.is_excluded;
    layers += layer.is_layer;
    count += layer.is_layer && !layer.is_excluded && !layer.tensors.empty();
  }
  if (!excludes) {
    log_warning("sync_batch_norm_exclude=" + excluded_ + " matches the path of no layer");
  }
  std::string excluded = names_of(
      layers_, [](const NormLayerOfModel& layer) { return layer.is_layer && layer.is_excluded; });
  if (!excluded.empty()) excluded = "; excluded: " + excluded;
  const std::string told =
      layers == 0 ? "calls of the model's own modules"
                  : std::to_string(count) + " of " + std::to_string(layers) + " layers";
  if (!is_quiet_) {
    std::fprintf(stderr, "ddpscope: sync_batch_norm: %s run over %d ranks of %s%s\n", told.c_str(),
                 group_->size(), group_->name().c_str(), excluded.c_str());
  }
  tell_nameless(*group_);
}

void SyncNorms::tell_nameless(const Communicator& group) {
  const std::string names = names_of(layers_, trains_nameless);
  if (names.empty() || std::exchange(told_nameless_, true) || group.rank() != 0) return;
  log_warning("sync_batch_norm: without weight and running mean a layer cannot be told: " + names +
              " runs over the batch of each rank");
}

LayerOverRanks SyncNorms::find(const OperatorCall& call) {
  if (const auto comparison = comparison_before(call)) {
    tell_backends(nullptr);
    groups_.settle(comparison->group);
    bool agreed = false;
    const auto settled = c10::make_scope_exit([&] { settle(agreed); });
    agreed = agree_on_layers(*comparison->group, comparison->lines, call.input.device());
  }
  const std::lock_guard lock(mutex_);
  if (state_ != NormState::kOn) return {};
  const auto* const layer =
      layer_with(call.weight.unsafeGetTensorImpl(), call.running_mean.unsafeGetTensorImpl());
  if (layer == nullptr || layer->is_excluded || !is_on_thread_of(*layer)) return {};
  if (!layer->is_training()) return {};
  if (!batch_norm::is_supported(call.input)) {
    if (!std::exchange(told_unsupported_, true)) {
      log_warning("sync_batch_norm: " + layer->name + " is given " +
                  c10::toString(call.input.scalar_type()) + " on " + call.input.device().str() +
                  ", for which there are no kernels: it runs over the batch of each rank");
    }
    return {};
  }
  return {layer->name, group_};
}

NormScope SyncNorms::scope_of(const c10::TensorImpl* weight, const c10::TensorImpl* mean) {
  const std::lock_guard lock(mutex_);
  if (weight == nullptr && mean == nullptr) return scope_of_nameless();
  if (state_ != NormState::kOn) return NormScope::kUndecided;
  const auto* const layer = layer_with(weight, mean);
  if (layer == nullptr) return NormScope::kUnlisted;
  if (layer->is_excluded) return NormScope::kExcluded;
  return is_on_thread_of(*layer) ? NormScope::kAllRanks : NormScope::kOtherThread;
}

/// The call may be of any layer that is nameless; where there is none it is of no layer.
NormScope SyncNorms::scope_of_nameless() const {
  if (state_ == NormState::kOff || layers_.empty()) return NormScope::kUndecided;
  bool is_of_layer = false, trains = false;
  for (const NormLayerOfModel& layer : layers_) {
    if (!layer.is_nameless()) continue;
    if (layer.is_excluded) return NormScope::kExcluded;
    is_of_layer = true;
    trains |= layer.is_training();
  }
  if (trains) return NormScope::kNameless;
  return is_of_layer || state_ != NormState::kOn ? NormScope::kUndecided : NormScope::kUnlisted;
}
}  // namespace

void start_operators(const Settings& settings, std::int64_t world_size) {
  watch_own_ops();
  if (!settings.sync_batch_norm) return;
  auto* const made = new SyncNorms(settings, world_size);
  norms.store(made, std::memory_order_release);
  made->attach();
}

void set_group_of_norms(const CommunicatorPtr& communicator) {
  if (SyncNorms* const active = norms.load()) active->give(communicator);
}

void norms_attached() {
  if (SyncNorms* const active = norms.load()) active->attach();
}

void norms_detached() {
  if (SyncNorms* const active = norms.load()) active->detach();
}

void end_sync_norms() noexcept {
  if (SyncNorms* const active = norms.load()) active->end();
}

}  // namespace ddpscope
