#include <iterator>
#include <string>
#include <utility>

#include "plugin/rank_digest.h"

namespace ddpscope {

/// A model that is trained again.
void RankDigest::come_back(TensorId trained, const RunState& state) {
  const TensorState* tensor = state.tensor(trained);
  if (tensor == nullptr) return;
  for (const Registration& at : tensor->registrations) {
    if (left_.erase(at.model) > 0) look_at(at.model, state);
  }
}

/// Other ranks have a model, too, of which some tensor was sent, or read from an archive or
/// written; of what has no name, one of as many elements.
void RankDigest::see_sent(TensorId tensor, std::int64_t elements) {
  for (const auto& [id, model] : models_) {
    const bool may_hold = tensor == 0 && elements > 0 &&
                          static_cast<std::uint64_t>(elements) == trained_elements(model.list());
    if (may_hold || model.place_of(tensor).has_value()) sent_.insert(id);
  }
}

/// Those that steps of this rank alone trained, and that no other rank was given.
void RankDigest::leave_models() {
  for (auto at = models_.begin(); at != models_.end();) {
    ModelTensors& model = at->second;
    const bool is_left =
        model.has_received() && model.received() == 0 && !sent_.contains(at->first);
    model.forget_received();
    if (is_left) {
      put_list(at->first, encode(TensorList{}));
      left_.insert(at->first);
    }
    at = is_left ? models_.erase(at) : std::next(at);
  }
}

void RankDigest::on(const TreeEvent& event, const RunState& state) { look_at(event.model, state); }

void RankDigest::on(const DeclarationEvent& event, const RunState& state) {
  averages_ |= event.kind == "averaged";
  look_at(event.model, state);
}

void RankDigest::on(const TreeEndEvent& event, const RunState&) {
  if (models_.erase(event.model) > 0) put_list(event.model, encode(TensorList{}));
  start_changed_ = !steps_began_;
}

void RankDigest::look_at(ModelId id, const RunState& state) {
  const auto model = state.models().find(id);
  if (model == state.models().end() || left_.contains(id)) return;
  ModelTensors tensors(model->second, state);
  const std::string bytes = encode(tensors.list());
  const auto known = models_.find(id);
  const bool is_new = known == models_.end() || encode(known->second.list()) != bytes;
  if (!is_new && known->second.has_tensors_of(tensors)) return;  // a module changed its mode
  if (known != models_.end()) tensors.follow(known->second);
  if (is_new) put_list(id, bytes);
  models_.insert_or_assign(id, std::move(tensors));
  start_changed_ = !steps_began_;
}

}  // namespace ddpscope
