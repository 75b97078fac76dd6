#include "plugin/model_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "checks/missing_cause.h"
#include "exchange/missing_on_ranks.h"
#include "exchange/reduction_record.h"
#include "model/hash.h"

namespace ddpscope {
namespace {
constexpr std::array<std::string_view, 3> kLocalKinds = {"rank_local", "sharded", "external"};

std::string path_of(const RegisteredTensor& registered) {
  const std::string& module = registered.module_path;
  return module.empty() ? registered.name : module + "." + registered.name;
}

bool is_local(const ModelState& model, const std::string& path, const RunState& state) {
  return std::ranges::any_of(
      kLocalKinds, [&](std::string_view kind) { return state.declared(model.id, path, kind); });
}
}  // namespace

ModelTensors::ModelTensors(const ModelState& model, const RunState& state) {
  list_.model = model.label;
  for (const RegisteredTensor& registered : model.tensors) {
    std::string path = path_of(registered);
    if (is_local(model, path, state)) {
      declared_.insert(registered.tensor.id);
      continue;
    }
    auto& tensors = registered.is_buffer ? buffers_ : parameters_;
    if (!registered.is_buffer) positions_.emplace(registered.tensor.id, parameters_.size());
    tensors.push_back(registered.tensor.id);
    list_.tensors.push_back({.path = std::move(path),
                             .dtype = registered.tensor.dtype,
                             .shape = registered.tensor.shape,
                             .is_buffer = registered.is_buffer,
                             .requires_grad = registered.tensor.requires_grad});
  }
  hash_ = hash_of(list_);
  received_bits_.resize((parameters_.size() + 7) / 8);
}

void ModelTensors::receive(TensorId tensor) {
  const auto [begin, end] = positions_.equal_range(tensor);
  for (auto at = begin; at != end; ++at) {
    const int bit = 1 << at->second % 8;
    char& byte = received_bits_[at->second / 8];
    if ((byte & bit) != 0) continue;
    byte = static_cast<char>(byte | bit);
    ++received_;
    has_received_ = true;
  }
}

void ModelTensors::clear_received() {
  received_ = 0;
  std::ranges::fill(received_bits_, '\0');
}

std::string ModelTensors::missing_causes(const RunState& state) const {
  if (state.last_surveyed_cycle() != state.now().cycle) return {};
  std::vector<std::string> causes(parameters_.size());
  for (const auto& [id, place] : positions_) {
    const TensorState* const tensor = is_received(place) ? nullptr : state.tensor(id);
    if (tensor == nullptr || !tensor->info.requires_grad) continue;
    causes[place] = missing_cause_of(state, *tensor, /*cycles=*/1).name;
  }
  return encode_missing(causes);
}

bool ModelTensors::all_are_owned(const RunState& state, const std::set<OptimizerId>& used) const {
  return std::ranges::all_of(positions_, [&](const auto& entry) {
    const TensorState* tensor = is_received(entry.second) ? state.tensor(entry.first) : nullptr;
    return tensor == nullptr || std::ranges::any_of(tensor->owners, [&used](OptimizerId owner) {
             return used.contains(owner);
           });
  });
}

std::uint64_t ModelTensors::bits_of(TensorId tensor, const Bits& bits) {
  const auto found = bits.find(tensor);
  return found == bits.end() ? 0 : found->second;
}

std::uint64_t ModelTensors::fingerprint(const Bits& bits, bool of_buffers) const {
  Hash hash;
  bool any = false;
  for (const TensorId tensor : of_buffers ? buffers_ : parameters_) {
    const std::uint64_t one = bits_of(tensor, bits);
    any |= one != 0;
    hash.add(one);
  }
  return any ? hash.value() : 0;
}

std::string ModelTensors::fingerprints(const Bits& bits) const {
  std::string bytes;
  for (const auto* tensors : {&parameters_, &buffers_}) {
    for (const TensorId tensor : *tensors) {
      const std::uint64_t one = bits_of(tensor, bits);
      for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>(one >> shift));
    }
  }
  return bytes;
}

std::string ModelTensors::sketches(const Sketches& read) const {
  std::vector<GradientSketch> all;
  bool any = false;
  for (const auto* tensors : {&parameters_, &buffers_}) {
    for (const TensorId tensor : *tensors) {
      const auto found = read.find(tensor);
      all.push_back(found == read.end() ? kNoSketch : found->second);
      any |= !std::isnan(all.back().squares);
    }
  }
  return any ? encode(all) : std::string();
}

}  // namespace ddpscope
