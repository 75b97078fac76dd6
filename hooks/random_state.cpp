#include "hooks/random_state.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "hooks/capture.h"
#include "hooks/inferred_calls.h"
#include "hooks/loop_phase.h"
#include "hooks/op_inputs.h"
#include "hooks/step_wait.h"
#include "model/hash.h"
#include "model/reduction_event.h"

namespace ddpscope {
namespace {
// Of a tensor that a forward has made. What makes one of sizes alone makes data up, or permutes it:
// ranks that share out one order of the data have equal seeds.
bool is_noise(std::string_view name) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"aten::rand_like", "aten::randn_like", "aten::randint_like", "aten::normal_",
       "aten::uniform_", "aten::bernoulli", "aten::bernoulli_", "aten::exponential_",
       "aten::log_normal_", "aten::cauchy_", "aten::geometric_", "aten::poisson", "aten::binomial",
       "aten::multinomial", "aten::rrelu", "aten::rrelu_", "aten::rrelu_with_noise",
       "aten::rrelu_with_noise_"});
  return std::ranges::find(kNames, name) != kNames.end();
}

bool draws_elsewhere(const c10::IValue& input) {
  if (input.isGenerator()) return true;
  if (input.isDevice()) return !input.toDevice().is_cpu();
  return input.isTensor() && input.toTensor().defined() && !input.toTensor().is_cpu();
}
}  // namespace

void tell_random_state(Capture& capture, const char* op) {
  static std::atomic<std::int64_t> told{0};
  const Stamp now = capture.marker().now();
  if (!capture.options().compares_ranks || told.exchange(now.step) == now.step) return;
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  Hash hash;
  hash.add(std::string_view(static_cast<const char*>(state.const_data_ptr()), state.nbytes()));
  capture.put(RandomStateEvent{.at = now,
                               .op = op,
                               .module = ModuleCalls::innermost(),
                               .seed = generator.current_seed(),
                               .fingerprint = hash.value()});
}

// Before the first part of a forward a program makes its data up, which ranks may share; between
// the backward and the step all ranks may add one noise to averaged gradients.
void see_random_operator(Capture& capture, const at::RecordFunction& function) {
  if (!capture.options().compares_ranks || !is_noise(function.name())) return;
  if (LoopPhase::now() != Phase::kForward || StepWait::is_pending()) return;
  if (!c10::GradMode::is_enabled()) return;
  if (std::ranges::any_of(function.inputs(), draws_elsewhere)) return;
  tell_random_state(capture, function.name());
}

}  // namespace ddpscope
