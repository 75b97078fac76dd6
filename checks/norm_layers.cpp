#include "checks/norm_layers.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <string_view>

#include "model/node_name.h"

namespace ddpscope {
namespace {
constexpr std::string_view kSingleValueRefused =
    "Expected more than 1 value per channel when training";

/// The numbers between the first brackets.
std::vector<std::int64_t> shape_in_message(const std::string& message) {
  std::vector<std::int64_t> shape;
  const char* at = message.data() + std::min(message.find('['), message.size());
  const char* const end = message.data() + std::min(message.find(']'), message.size());
  while (at < end) {
    std::int64_t size = 0;
    const auto read = std::from_chars(++at, end, size);
    if (read.ec == std::errc()) shape.push_back(size);
    at = std::find(read.ptr, end, ' ');
  }
  return shape;
}

/// Whether the module can be the layer that normalises so many channels.
bool may_normalise(const ModulePlace& place, std::int64_t channels, const ModelState& model) {
  const bool is_named = std::ranges::any_of(model.modules, [&](const ModuleInfo& module) {
    return module.path == place.path && module.type.find("BatchNorm") != std::string::npos;
  });
  return is_named || std::ranges::any_of(model.tensors, [&](const RegisteredTensor& registered) {
           return registered.module_path == place.path &&
                  registered.tensor.shape == std::vector{channels};
         });
}
}  // namespace

std::int64_t values_per_channel(const std::vector<std::int64_t>& shape) {
  if (shape.size() < 2) return 0;
  return shape[0] * std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1},
                                    std::multiplies<std::int64_t>());
}

std::optional<NormLayer> trained_norm(const TrainingOpEvent& event, const RunState& state) {
  const std::int64_t values = values_per_channel(event.input);
  const bool trains = event.grad_mode && !event.in_eval;
  const bool over_ranks = event.op == kSyncBatchNorm;
  if (!trains || values < 1 || (event.op != "aten::batch_norm" && !over_ranks)) return std::nullopt;
  NormLayer layer{.input = event.input,
                  .values_per_channel = values,
                  .scope = over_ranks ? NormScope::kAllRanks : event.scope};
  for (const TensorId own : {event.statistics, event.weight}) {
    const TensorState* tensor = state.tensor(own);
    if (tensor == nullptr || tensor->registrations.empty()) continue;
    layer.model = tensor->registrations.front().model;
    layer.path = tensor->registrations.front().module_path;
    return layer;
  }
  const ModulePlace* place = state.place_of(event.module);
  if (place != nullptr && over_ranks &&
      !may_normalise(*place, event.input[1], state.models().at(place->model))) {
    place = nullptr;
  }
  if (place != nullptr) {
    layer.model = place->model;
    layer.path = place->path;
  }
  return layer;
}

std::optional<NormLayer> refused_norm(const ErrorEvent& event, const RunState& state) {
  if (!event.message.starts_with(kSingleValueRefused)) return std::nullopt;
  NormLayer layer{.input = shape_in_message(event.message), .values_per_channel = 1};
  const ModulePlace* place = state.place_of(event.asked_mode);
  if (place == nullptr || layer.input.size() < 2) return layer;
  if (may_normalise(*place, layer.input[1], state.models().at(place->model))) {
    layer.model = place->model;
    layer.path = place->path;
  }
  return layer;
}

void place_at(const std::vector<NormLayer>& layers, const RunState& state, Finding& finding) {
  const auto model = state.models().find(layers.front().model);
  if (model == state.models().end()) {
    if (const ModelState* first = state.first_model()) finding.model = first->label;
    return;
  }
  finding.model = model->second.label;
  finding.module_path = layers.front().path;
  for (const NormLayer& layer : layers) {
    finding.module_path = common_path(finding.module_path, layer.path);
  }
}

}  // namespace ddpscope
