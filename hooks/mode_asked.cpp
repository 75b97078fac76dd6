#include "hooks/mode_asked.h"

#include <torch/nn/module.h>

#include "hooks/interposed.h"
#include "hooks/module_tracker.h"
#include "hooks/near_tls.h"
#include "model/hot_code.h"

namespace ddpscope {
namespace {
using torch::nn::Module;

DDPSCOPE_NEAR thread_local const Module* asked = nullptr;

struct IsTraining {
  using Hooked = Interposed<IsTraining, bool(const Module*)>;
  DDPSCOPE_HOT static bool call(const Module* self) noexcept {
    asked = self;
    return Hooked::original(self);
  }
};
}  // namespace

void install_mode_asked() noexcept {
  IsTraining::Hooked::install("_ZNK5torch2nn6Module11is_trainingEv", IsTraining::call);
}

ModuleId last_mode_asked() noexcept { return module_id(asked); }

}  // namespace ddpscope
