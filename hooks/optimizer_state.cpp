#include "hooks/optimizer_state.h"

#include <torch/optim.h>

#include "hooks/capture.h"
#include "hooks/replica_bits.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
using torch::optim::OptimizerParamState;

void add(Hash& hash, const at::Tensor& tensor) {
  hash.add(tensor.defined() ? bits_of(tensor) : std::uint64_t{0});
}
void add(Hash& hash, std::int64_t step) { hash.add(static_cast<std::uint64_t>(step)); }

template <class State, class... Parts>
bool add_as(Hash& hash, const OptimizerParamState& state, Parts... parts) {
  const auto* const known = dynamic_cast<const State*>(&state);
  if (known != nullptr) (add(hash, (known->*parts)()), ...);
  return known != nullptr;
}

template <class State, class Value>
using Part = const Value& (State::*)() const noexcept;

template <class State>
bool add_moments(Hash& hash, const OptimizerParamState& state) {
  return add_as<State>(hash, state, Part<State, std::int64_t>(&State::step),
                       Part<State, at::Tensor>(&State::exp_avg),
                       Part<State, at::Tensor>(&State::exp_avg_sq),
                       Part<State, at::Tensor>(&State::max_exp_avg_sq));
}

/// False: of a class that is not known.
bool add_state(Hash& hash, const OptimizerParamState& state) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  using Sgd = SGDParamState;
  using Rms = RMSpropParamState;
  using Ada = AdagradParamState;
  return add_moments<AdamParamState>(hash, state) || add_moments<AdamWParamState>(hash, state) ||
         add_as<Sgd>(hash, state, Part<Sgd, at::Tensor>(&Sgd::momentum_buffer)) ||
         add_as<Rms>(hash, state, Part<Rms, std::int64_t>(&Rms::step),
                     Part<Rms, at::Tensor>(&Rms::square_avg),
                     Part<Rms, at::Tensor>(&Rms::momentum_buffer),
                     Part<Rms, at::Tensor>(&Rms::grad_avg)) ||
         add_as<Ada>(hash, state, Part<Ada, std::int64_t>(&Ada::step),
                     Part<Ada, at::Tensor>(&Ada::sum));
}

/// False: of a class that is not known.
bool add_states(OptimizerStateEvent& event, const torch::optim::Optimizer& optimizer) {
  const auto& states = optimizer.state();
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& member : group.params()) {
      const auto found = states.find(member.unsafeGetTensorImpl());
      if (found == states.end()) continue;
      Hash hash;
      if (found->second == nullptr || !add_state(hash, *found->second)) return false;
      event.fingerprint += hash.value();  // ranks may list their members in another order
      ++event.members;
    }
  }
  return true;
}
}  // namespace

void tell_first_state(Capture& capture, const torch::optim::Optimizer& optimizer, OptimizerId id) {
  OptimizerStateEvent event{.at = capture.marker().now(), .optimizer = id};
  event.is_known = compares_replicas(capture) && add_states(event, optimizer);
  capture.put(event);
}

}  // namespace ddpscope
