#include "hooks/hooked_call.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "hooks/backward_of_call.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
thread_local HookedCall* innermost = nullptr;
thread_local int callbacks = 0;
}  // namespace

InCallback::InCallback() noexcept { ++callbacks; }
InCallback::~InCallback() noexcept { --callbacks; }
bool InCallback::here() noexcept { return callbacks > 0; }

std::unique_ptr<HookedCall> HookedCall::of(const Module& module, CallSource source,
                                           std::string_view op) {
  if (InCallback::here()) return nullptr;
  const auto tells_it = [&](const HookedCall& call) { return &call.module_ == &module; };
  if (innermost != nullptr && innermost->source_ == CallSource::kDeclared && tells_it(*innermost)) {
    return nullptr;
  }
  if (source == CallSource::kOperator) {
    for (const HookedCall* call = innermost; call != nullptr; call = call->outer_) {
      if (tells_it(*call)) return nullptr;
    }
  }
  std::vector<HookMatch> hooks = UserHooks::matching(module);
  if (hooks.empty()) return nullptr;
  return std::unique_ptr<HookedCall>(new HookedCall(module, source, std::move(hooks), op));
}

HookedCall::HookedCall(const Module& module, CallSource source, std::vector<HookMatch> hooks,
                       std::string_view op)
    : module_(module), source_(source), op_(op), hooks_(std::move(hooks)), outer_(innermost) {
  innermost = this;
}

HookedCall::~HookedCall() { innermost = outer_; }

ForwardView HookedCall::view(const HookMember& member, std::span<const at::Tensor> outputs) const {
  const bool is_inferred = source_ != CallSource::kDeclared && member.is_inferred;
  return {.module = module_,
          .path = member.place.path,
          .type = member.type,
          .inputs = inputs_,
          .outputs = outputs,
          .is_inferred = is_inferred,
          .op = op_};
}

bool HookedCall::wants_backward() const {
  return c10::GradMode::is_enabled() && std::ranges::any_of(hooks_, [](const HookMatch& match) {
           return match.hook->callbacks().backward != nullptr;
         });
}

void HookedCall::begin(std::vector<at::Tensor> inputs) {
  inputs_ = std::move(inputs);
  if (wants_backward()) backward_ = std::make_shared<BackwardOfCall>(module_, hooks_, inputs_);
  const InCallback scope;
  for (const HookMatch& match : hooks_) {
    const auto& before = match.hook->callbacks().before;
    if (before != nullptr && !match.hook->is_removed()) before(view(*match.member, {}));
  }
}

void HookedCall::end(std::vector<at::Tensor> outputs, at::Tensor* result) {
  {
    const InCallback scope;
    for (const HookMatch& match : hooks_) {
      const auto& after = match.hook->callbacks().after;
      if (after == nullptr || match.hook->is_removed()) continue;
      at::Tensor replacement = after(view(*match.member, outputs));
      if (!replacement.defined() || result == nullptr) continue;
      outputs = {replacement};
      *result = std::move(replacement);
    }
  }
  if (backward_ != nullptr) backward_->listen(backward_, outputs);
}

}  // namespace ddpscope
