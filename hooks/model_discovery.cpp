#include "hooks/model_discovery.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "hooks/archive_watch.h"
#include "hooks/autograd_watch.h"
#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "hooks/error_watch.h"
#include "hooks/interposed.h"
#include "hooks/module_hooks.h"
#include "hooks/script_discovery.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
constexpr std::size_t kMaxCandidates = 4096;
constexpr std::size_t kFewCandidates = 64;
constexpr int kMaxTreeDepth = 200;

struct Candidate {
  Module* module = nullptr;
  ModuleLife life;
  std::thread::id thread;  ///< of its last call: nobody else may walk it
  ModelId model = 0;       ///< once it is attached
};

constinit std::atomic<void (*)() noexcept> start_session{nullptr};
thread_local int discovery_depth = 0;

class Candidates {
 public:
  void touch(Module& module);
  void attach_roots(Capture& capture);
  void detach_all(Capture& capture);

 private:
  void make_room();

  std::mutex mutex_;
  std::vector<Candidate> all_;
  std::size_t make_room_at_ = kFewCandidates;
};

bool can_wait() noexcept {
  const Capture* const capture = Capture::active();
  return capture != nullptr && Capture::watch() == Watch::kNothing &&
         capture->marker().makes_many_models();
}

Candidates& candidates() {
  static auto* const leaked = new Candidates;
  return *leaked;
}

void Candidates::touch(Module& module) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(all_, &module, &Candidate::module);
  if (known != all_.end() && !known->life.is_over()) {
    known->thread = std::this_thread::get_id();
    return;
  }
  if (known != all_.end()) all_.erase(known);  // died, or a shared pointer owns it now
  if (all_.size() >= make_room_at_) make_room();
  if (all_.size() >= kMaxCandidates) return;
  all_.push_back({.module = &module,
                  .life = ModuleLife::of_object(module),
                  .thread = std::this_thread::get_id()});
  (can_wait() ? hook_state.discovery_waits : hook_state.has_discovered)
      .store(true, std::memory_order_release);
}

// The end of those that were attached is told first.
void Candidates::make_room() {
  std::erase_if(all_, [](const Candidate& one) { return one.model == 0 && one.life.is_over(); });
  make_room_at_ = std::max(kFewCandidates, 2 * all_.size());
}

// Asked without its children: load() and save() ask each module so, and clone() what it copies.
bool may_be_model(const Module& module) {
  constexpr std::array<std::string_view, 3> kContainers = {
      "torch::nn::SequentialImpl", "torch::nn::ModuleListImpl", "torch::nn::ModuleDictImpl"};
  const std::string& name = module.name();
  return !name.starts_with("torch::nn::") ||
         std::ranges::find(kContainers, name) != kContainers.end();
}

void add_descendants(const Module& module, std::set<const Module*>& found, int depth) {
  for (const auto& child : module.named_children()) {
    if (child.value() == nullptr || !found.insert(child.value().get()).second) continue;
    if (depth < kMaxTreeDepth) add_descendants(*child.value(), found, depth + 1);
  }
}

void Candidates::attach_roots(Capture& capture) {
  const std::lock_guard lock(mutex_);
  for (Candidate& one : all_) {
    if (one.model == 0 || !one.life.is_over()) continue;
    capture.modules().detach(capture, std::exchange(one.model, 0));
  }
  make_room();
  std::set<const Module*> children;
  const auto is_mine = [](const Candidate& one) {
    return one.thread == std::this_thread::get_id();
  };
  for (const Candidate& one : all_) {
    const std::shared_ptr<Module> module = is_mine(one) ? one.life.lock() : nullptr;
    if (module != nullptr) add_descendants(*module, children, 0);
  }
  for (Candidate& one : all_) {
    if (one.model == 0 || !children.contains(one.module)) continue;
    capture.modules().detach(capture, std::exchange(one.model, 0));
  }
  for (Candidate& one : all_) {
    const std::shared_ptr<Module> module = is_mine(one) ? one.life.lock() : nullptr;
    if (module == nullptr || one.model != 0 || children.contains(one.module)) continue;
    one.model = capture.modules().attach(capture, *module, one.life);
  }
}

template <int kWhich, class Result, class Self, class... Arguments>
struct Method {
  using Hooked = Interposed<Method, Result(Self*, Arguments...)>;
  static Result call(Self* self, Arguments... arguments) {
    const ProgramCall scope(*self, !std::is_const_v<Self> || (arguments && ...));
    return Hooked::original(self, std::forward<Arguments>(arguments)...);
  }
  static bool install(const char* symbol) noexcept { return Hooked::install(symbol, call); }
};

// Those that are const take `recurse` alone.
using Named = torch::OrderedDict<std::string, at::Tensor>;
using Parameters = Method<0, std::vector<at::Tensor>, const Module, bool>;
using NamedParameters = Method<1, Named, const Module, bool>;
using ModuleZeroGrad = Method<2, void, Module, bool>;
}  // namespace

ProgramCall::ProgramCall(const Module& module, bool recurse) {
  if (discovery_depth++ > 0 || !is_discovering()) return;
  start_discovery_session();
  as_guest("tree", [&](Capture&) {
    if (recurse || may_be_model(module)) candidates().touch(const_cast<Module&>(module));
  });
}

ProgramCall::~ProgramCall() { --discovery_depth; }

void discover_models(void (*start)() noexcept) noexcept {
  start_session.store(start);
  install_archive_watch();
  install_autograd_watch();
  install_collective_watch();
  install_throw_watch();
  install_module_changes();
  discover_script_models();
  Parameters::install("_ZNK5torch2nn6Module10parametersEb");
  NamedParameters::install("_ZNK5torch2nn6Module16named_parametersB5cxx11Eb");
  ModuleZeroGrad::install("_ZN5torch2nn6Module9zero_gradEb");
}

void Candidates::detach_all(Capture& capture) {
  const std::lock_guard lock(mutex_);
  for (const Candidate& one : all_) {
    if (one.model != 0) capture.modules().detach(capture, one.model);
  }
  all_.clear();
}

bool is_discovering() noexcept { return start_session.load(std::memory_order_relaxed) != nullptr; }

void stop_discovery() noexcept {
  if (start_session.exchange(nullptr) == nullptr) return;
  as_guest("tree", [](Capture& capture) { candidates().detach_all(capture); });
}

void start_discovery_session() noexcept {
  auto* const start = start_session.load(std::memory_order_acquire);
  if (start != nullptr && Capture::active() == nullptr) start();
}

void attach_discovered(Capture& capture) {
  if (!is_discovering() || !(has_discovered() || discovery_waits())) return;
  hook_state.discovery_waits.store(false);
  hook_state.has_discovered.store(false);
  candidates().attach_roots(capture);
}

}  // namespace ddpscope
