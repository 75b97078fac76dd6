#include "hooks/hooked_call.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "hooks/backward_of_call.h"
#include "hooks/near_tls.h"

namespace ddpscope {
namespace {
using torch::nn::Module;
DDPSCOPE_NEAR thread_local HookedCall* innermost = nullptr;
DDPSCOPE_NEAR thread_local int callbacks = 0;
}  // namespace

InCallback::InCallback() noexcept { ++callbacks; }
InCallback::~InCallback() noexcept { --callbacks; }
bool InCallback::here() noexcept { return callbacks > 0; }

bool HookedCall::is_told(const Module& module, CallSource source) {
  const auto tells_it = [&](const HookedCall& call) { return &call.module_ == &module; };
  if (innermost != nullptr && innermost->source_ == CallSource::kDeclared && tells_it(*innermost)) {
    return true;
  }
  if (source != CallSource::kOperator) return false;
  for (const HookedCall* call = innermost; call != nullptr; call = call->outer_) {
    if (tells_it(*call)) return true;
  }
  return false;
}

HookMatches HookedCall::hooks_of(const Module& module, CallSource source) {
  if (InCallback::here() || is_told(module, source)) return {};
  return UserHooks::matching(module);
}

HookedCall::HookedCall(const Module& module, CallSource source, std::string_view op)
    : module_(module),
      source_(source),
      op_(op),
      hooks_(hooks_of(module, source)),
      outer_(innermost) {
  if (*this) innermost = this;
}

HookedCall::~HookedCall() {
  if (*this) innermost = outer_;
}

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
