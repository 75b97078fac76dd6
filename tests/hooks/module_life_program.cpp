// Asks modules whether they train after they died, as a walk over all known modules would:
// module_life_program naive|proven <how they live>. AddressSanitizer sees who reads dead memory.

#include <torch/nn/module.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "hooks/module_life.h"

namespace {
using torch::nn::Module;

struct Net : Module {};

/// Finds modules again by plain pointers.
class NaiveRegistry {
 public:
  void add(Module& module) { module_ = &module; }
  bool visits() const { return module_ != nullptr && module_->is_training(); }

 private:
  Module* module_ = nullptr;
};

class ProvenRegistry {
 public:
  void add(Module& module) { life_ = ddpscope::ModuleLife::of_object(module); }
  bool visits() const {
    const std::shared_ptr<Module> module = life_.lock();
    return module != nullptr && module->is_training();
  }

 private:
  ddpscope::ModuleLife life_;
};

/// Alive it is visited, dead it is not.
template <typename Registry>
int judge(bool visited_alive, const Registry& registry) {
  if (visited_alive && !registry.visits()) return 0;
  std::puts(visited_alive ? "a dead module was visited" : "a living module was not visited");
  return 1;
}

template <typename Registry>
int owned_by_one_pointer() {
  Registry registry;
  auto net = std::make_unique<Net>();
  registry.add(*net);
  const bool alive = registry.visits();
  net.reset();
  return judge(alive, registry);
}

template <typename Registry>
int shared() {
  Registry registry;
  auto net = std::make_shared<Net>();
  registry.add(*net);
  const bool alive = registry.visits();
  net.reset();
  return judge(alive, registry);
}

template <typename Registry>
int adopted_after_it_was_seen() {
  Registry registry;
  auto net = std::make_unique<Net>();
  registry.add(*net);
  const bool alive = registry.visits();
  std::shared_ptr<Module> owner(std::move(net));
  owner.reset();
  return judge(alive, registry);
}

template <typename Registry>
int member_of_a_dead_object() {
  struct Trainer {
    Net net;
  };
  Registry registry;
  auto trainer = std::make_unique<Trainer>();
  registry.add(trainer->net);
  const bool alive = registry.visits();
  trainer.reset();
  return judge(alive, registry);
}

template <typename Registry>
int copied_and_outlived_by_the_copy() {
  Registry registry;
  auto net = std::make_unique<Net>();
  registry.add(*net);
  const bool alive = registry.visits();
  const Net copy(*net);
  net.reset();
  return judge(alive && copy.is_training(), registry);
}

template <typename Registry>
int run(const std::string& name) {
  const std::map<std::string, std::function<int()>> cases = {
      {"owned_by_one_pointer", owned_by_one_pointer<Registry>},
      {"shared", shared<Registry>},
      {"adopted_after_it_was_seen", adopted_after_it_was_seen<Registry>},
      {"member_of_a_dead_object", member_of_a_dead_object<Registry>},
      {"copied_and_outlived_by_the_copy", copied_and_outlived_by_the_copy<Registry>}};
  const auto found = cases.find(name);
  return found == cases.end() ? 2 : found->second();
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string registry = argv[1];
  if (registry == "naive") return run<NaiveRegistry>(argv[2]);
  return registry == "proven" ? run<ProvenRegistry>(argv[2]) : 2;
}
