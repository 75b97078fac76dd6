#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checks/run_state.h"
#include "exchange/tensor_list.h"
#include "model/reduction_event.h"

namespace ddpscope {

/// The registered tensors of one model in the order in which ranks compare them, without those that
/// are declared rank-local, sharded or external.
class ModelTensors {
 public:
  ModelTensors(const ModelState& model, const RunState& state);

  const TensorList& list() const { return list_; }
  std::uint64_t hash() const { return hash_; }

  bool declares(TensorId tensor) const { return declared_.contains(tensor); }
  /// Before it was looked at anew.
  void follow(const ModelTensors& before) { has_received_ = before.has_received_; }
  /// The very same objects in the same places.
  bool has_tensors_of(const ModelTensors& other) const {
    return parameters_ == other.parameters_ && buffers_ == other.buffers_;
  }

  bool has_buffer(TensorId tensor) const {
    return std::ranges::find(buffers_, tensor) != buffers_.end();
  }

  /// Among the parameters; nothing for what is none, or is declared.
  std::optional<std::size_t> place_of(TensorId tensor) const {
    const auto found = positions_.find(tensor);
    return found == positions_.end() ? std::nullopt : std::optional(found->second);
  }

  /// A parameter received a gradient in this step; those that are declared do not count.
  void receive(TensorId tensor);
  void clear_received();
  std::int64_t received() const { return received_; }
  /// In any step.
  bool has_received() const { return has_received_; }
  /// In those before this one.
  void forget_received() { has_received_ = received_ > 0; }
  /// One bit per parameter, the lowest of each byte first.
  const std::string& received_bits() const { return received_bits_; }
  /// Why parameters received none in the cycle of now, where its operators were recorded; in the
  /// order of the bits, as exchange/missing_on_ranks.h tells it.
  std::string missing_causes(const RunState& state) const;
  /// Whether every parameter that received a gradient is in an optimizer of `used`.
  bool all_are_owned(const RunState& state, const std::set<OptimizerId>& used) const;

  /// Of what is not declared and could be read, over all parameters or buffers; 0 if none was.
  using Bits = std::unordered_map<TensorId, std::uint64_t>;
  std::uint64_t fingerprint(const Bits& bits, bool of_buffers) const;
  /// Eight bytes per parameter, then per buffer.
  std::string fingerprints(const Bits& bits) const;
  using Sketches = std::unordered_map<TensorId, GradientSketch>;
  /// In the same order; nothing where none was read.
  std::string sketches(const Sketches& read) const;

 private:
  bool is_received(std::size_t place) const {
    return (static_cast<unsigned char>(received_bits_[place / 8]) >> place % 8 & 1) != 0;
  }
  static std::uint64_t bits_of(TensorId tensor, const Bits& bits);

  TensorList list_;
  std::uint64_t hash_ = 0;
  std::vector<TensorId> parameters_;
  std::vector<TensorId> buffers_;
  std::unordered_multimap<TensorId, std::size_t> positions_;  // of parameters, not declared
  std::unordered_set<TensorId> declared_;
  std::string received_bits_;
  std::int64_t received_ = 0;
  bool has_received_ = false;
};

}  // namespace ddpscope
