#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "checks/check.h"
#include "checks/norm_layers.h"
#include "checks/norm_local_text.h"
#include "checks/run_state.h"

namespace ddpscope {
namespace {
constexpr std::int64_t kCyclesOfNorms = 3;
constexpr std::size_t kMaxCalls = 4096;

/// And not only for now, or by the user's own choice.
bool is_local(const NormLayer& layer) {
  return layer.scope == NormScope::kRank || is_left_out(layer);
}

/// norm-local-batch-stats; docs/checks/norm-local-batch-stats.md
class NormLocalBatchStats final : public Check {
 public:
  void on_collective(const CollectiveEvent& event, const RunState&, Findings&) override {
    averages_ |= event.averages && event.group_size > 1;
  }

  void on_training_op(const TrainingOpEvent& event, const RunState& state, Findings&) override {
    if (told_ || state.world_size() < 2) return;
    const auto layer = trained_norm(event, state);
    if (!layer.has_value() || !is_local(*layer)) return;
    const Call call{event.statistics, event.weight, event.module};
    if (calls_.size() >= kMaxCalls && !calls_.contains(call)) return;
    const auto [known, is_new] = calls_.try_emplace(call, event);
    if (layer->values_per_channel < values_per_channel(known->second.input)) known->second = event;
  }

  void on_cycle_end(const CycleEndEvent& event, const RunState& state,
                    Findings& findings) override {
    if (event.at.cycle >= kCyclesOfNorms) judge(state, findings);
  }
  void on_exit(const ExitEvent&, const RunState& state, Findings& findings) override {
    judge(state, findings);
  }

 private:
  void judge(const RunState& state, Findings& findings) {
    if (told_) return;
    for (const auto& [model, layers] : layers_by_model(state)) {
      if (!averages_ && !state.said_to_average(model)) continue;
      told_ = true;
      findings.push_back(about_local_norms(layers, state));
    }
  }

  /// By what is registered now: a layer may be new in the step that calls it.
  std::map<ModelId, std::vector<NormLayer>> layers_by_model(const RunState& state) const {
    std::map<std::pair<ModelId, std::string>, NormLayer> layers;
    for (const auto& [call, event] : calls_) {
      const auto layer = trained_norm(event, state);
      if (!layer.has_value()) continue;
      const auto [known, is_new] = layers.try_emplace({layer->model, layer->path}, *layer);
      if (layer->values_per_channel < known->second.values_per_channel) known->second = *layer;
    }
    std::map<ModelId, std::vector<NormLayer>> by_model;
    for (const auto& [place, layer] : layers) by_model[place.first].push_back(layer);
    return by_model;
  }

  using Call = std::tuple<TensorId, TensorId, ModuleId>;  ///< statistics, weight and module
  std::map<Call, TrainingOpEvent> calls_;                 ///< with the fewest values per channel
  bool averages_ = false;
  bool told_ = false;
};
}  // namespace

std::unique_ptr<Check> make_norm_local_batch_stats() {
  return std::make_unique<NormLocalBatchStats>();
}

}  // namespace ddpscope
