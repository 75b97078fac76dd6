#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugin/rank_digest.h"

namespace ddpscope::test {

inline constexpr ModelId kNet = 1;
inline constexpr TensorId kWeight = 11;
inline constexpr TensorId kBias = 12;
inline constexpr TensorId kHead = 13;
inline constexpr TensorId kMean = 14;
inline constexpr OptimizerId kSgd = 7;

inline RegisteredTensor registered(TensorId id, const std::string& module,
                                   const std::string& name) {
  RegisteredTensor tensor{.module_path = module, .name = name};
  tensor.tensor.id = id;
  tensor.tensor.dtype = "float32";
  tensor.tensor.shape = {4};
  tensor.tensor.floating = true;
  tensor.tensor.requires_grad = true;
  tensor.tensor.is_leaf = true;
  return tensor;
}

inline TreeEvent net() {
  TreeEvent tree{.at = {.step = 1, .cycle = 1}, .model = kNet, .label = "Net"};
  tree.tensors = {registered(kWeight, "trunk", "weight"), registered(kBias, "trunk", "bias"),
                  registered(kMean, "norm", "mean"), registered(kHead, "", "head")};
  tree.tensors[2].is_buffer = true;
  tree.tensors[2].tensor.requires_grad = false;
  return tree;
}

struct KeptBlob {
  BlobKind kind;
  std::uint32_t number;
  std::int64_t step;
  std::string bytes;
};

/// One rank, as the worker sees it.
class Rank {
 public:
  std::vector<StepDigest> digests;
  std::vector<std::int64_t> shown;
  std::vector<KeptBlob> blobs;
  std::vector<LoneSteps> lone;

  void send(const Event& event) {
    state_.apply(event);
    digest_.saw(event, state_);
  }
  template <class T>
  void send_large(T event) {
    send(std::make_unique<T>(std::move(event)));
  }
  void settle() { digest_.settle(state_); }
  Stamp now() const { return {.step = steps_ + 1, .cycle = steps_ + 1}; }

  void members(std::vector<std::vector<TensorId>> groups, double rate = 0.1) {
    OptimizerMembersEvent event{.at = now(), .optimizer = kSgd, .type = "torch::optim::SGD"};
    for (const auto& group : groups) {
      auto& list = event.groups.emplace_back();
      for (const TensorId id : group) list.push_back({.tensor = id, .requires_grad = true});
      event.options.push_back({.weight_decay = 1e-4, .momentum = 0.9, .learning_rate = rate});
    }
    send_large(std::move(event));
  }
  void rate(double rate) {
    send_large(OptimizerRatesEvent{
        .at = now(),
        .optimizer = kSgd,
        .options = {{.weight_decay = 1e-4, .momentum = 0.9, .learning_rate = rate}}});
  }
  void backward(const std::vector<TensorId>& leaves) {
    send_large(BackwardEvent{.at = now()});
    for (const TensorId id : leaves) send(GradientEvent{.at = now(), .tensor = id});
    send(BackwardEndEvent{.at = now()});
    ++backwards_;
  }
  void bits(std::int64_t step, std::vector<TensorBits> tensors) {
    send_large(TensorBitsEvent{.step = step, .tensors = std::move(tensors)});
  }
  void end_step(bool whole = true, OptimizerId optimizer = kSgd) {
    send(OptimizerStepEvent{.at = now(), .optimizer = optimizer});
    told_end(whole);
  }
  /// Ends a step in which hooks rest: nothing else is told of it.
  void rest() { told_end(/*whole=*/false); }
  void step(const std::vector<TensorId>& leaves = {kWeight, kBias, kHead}) {
    backward(leaves);
    end_step();
  }
  std::vector<KeptBlob> of(BlobKind kind) const {
    std::vector<KeptBlob> found;
    for (const KeptBlob& blob : blobs) {
      if (blob.kind == kind) found.push_back(blob);
    }
    return found;
  }

 private:
  void told_end(bool whole) {
    send(StepEndEvent{.at = now(),
                      .whole = whole,
                      .unix_ns = 1000 * steps_,
                      .forwards = backwards_,
                      .backwards = backwards_,
                      .optimizer_steps = static_cast<std::int32_t>(steps_ + 1)});
    ++steps_;
  }

  std::int64_t steps_ = 0;
  std::int32_t backwards_ = 0;
  RunState state_;
  RankDigest digest_{
      {.digest = [this](const StepDigest& digest) { digests.push_back(digest); },
       .blob =
           [this](const Blob& blob) {
             blobs.push_back({blob.kind, blob.number, blob.step, std::string(blob.bytes)});
           },
       .shown = [this](const StepDigest& digest) { shown.push_back(digest.step); },
       .lone = [this](const LoneSteps& steps) { lone.push_back(steps); }},
      /*every=*/16};
};

/// The digest of the second step of a rank that attached `tree` and did `before` its steps.
inline StepDigest second_step(const std::function<void(Rank&)>& before,
                              const TreeEvent& tree = net()) {
  Rank rank;
  rank.send_large(TreeEvent(tree));
  rank.members({{kWeight, kBias, kHead}});
  before(rank);
  rank.step();
  rank.step();
  return rank.digests.back();
}

}  // namespace ddpscope::test
