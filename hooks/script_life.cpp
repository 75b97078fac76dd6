#include "hooks/script_life.h"

#include <torch/csrc/jit/api/module.h>

namespace ddpscope {

struct ScriptLife::Weak {
  c10::weak_intrusive_ptr<c10::ivalue::Object> object;
};

ScriptLife::ScriptLife(const torch::jit::Module& module)
    : weak_(std::make_shared<Weak>(
          Weak{c10::weak_intrusive_ptr<c10::ivalue::Object>(module._ivalue())})) {}

bool ScriptLife::is_over() const noexcept { return weak_ == nullptr || weak_->object.expired(); }

std::shared_ptr<const torch::jit::Module> ScriptLife::lock() const {
  if (weak_ == nullptr) return nullptr;
  auto object = weak_->object.lock();
  if (!object) return nullptr;
  return std::make_shared<const torch::jit::Module>(std::move(object));
}

bool ScriptLife::is_training() const {
  const auto module = lock();
  return module != nullptr && module->is_training();
}

const void* object_of(const torch::jit::Module& module) { return module._ivalue().get(); }

std::string class_of(const torch::jit::Module& module) {
  const auto name = module.type()->name();
  return name ? name->name() : "ScriptModule";
}

}  // namespace ddpscope
