#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checks/loss_scale.h"
#include "exchange/rank_ring.h"
#include "plugin/divided_loss.h"
#include "plugin/model_tensors.h"

namespace ddpscope {

/// What one rank tells of a step beside its state: the batch, the random numbers, the clip, and
/// what the gradients were before and after the ranks averaged them. Used by one thread.
class TrainedWith {
 public:
  using Models = std::map<ModelId, ModelTensors>;
  TrainedWith(const Models& models, std::function<void(const Blob&)> blob)
      : models_(models), blob_(std::move(blob)) {}

  /// `loss`: what is known of its root.
  void on_backward(const BackwardEvent& event, const LossScale& loss);
  void on(const OpEvent& event, const RunState& state) { divided_.on_op(event, rows_, state); }
  void on(const CollectiveEvent& event);
  void on(const GradientsScaledEvent& event);
  void on(const ReducedGradientsEvent& event);
  void on(const BatchRequestEvent& event, const RunState& state);
  void on(const BatchEvent& event, const RunState& state);
  void on(const RandomStateEvent& event, const RunState& state);
  void on(const LossTargetsEvent& event, const RunState& state);

  /// Whether a loss of the step may be weighed by the rows of its batch, which are `factor`, or by
  /// what the ranks exchanged.
  bool may_weigh_by(double factor) const { return is_weighed_ || factor == rows_; }
  void add_to(StepDigest& digest) const;
  /// The same, of a step of which all events were seen.
  void add_whole_to(StepDigest& digest) const;
  /// Likewise: after which of its backwards gradients were averaged.
  void tell_sync_pattern(std::int64_t step);
  void step_ended();

 private:
  void weigh(const GradientsScaledEvent& event);
  void tell_epoch(const BatchEvent& event);
  void tell(BlobKind kind, const ReducedGradientsEvent& event,
            const std::vector<ReducedGradient>& gradients) const;
  bool shares_data(const RunState& state) const;
  void put_text(BlobKind kind, std::int64_t step, std::string text, std::string& told);

  const Models& models_;
  std::function<void(const Blob&)> blob_;
  std::int64_t clipped_ = 0;         // gradients, by the largest clip of the step in progress
  double clip_factor_ = 1;           // of that step, as are batch and random state
  std::int64_t clip_backwards_ = 0;  // before the last clip of that step
  bool is_clipped_each_ = false;     // after each of them
  double weight_ = 1;                // likewise: the other factors
  TensorId first_weighed_ = 0;
  std::int64_t weighed_ = 0;  // gradients, by the largest of these
  std::uint64_t batch_ = 0;
  std::uint64_t random_ = 0;
  std::uint64_t calls_ = 0;  // collectives since the last backward began
  std::int64_t losses_ = 0;  // of that step, as what follows
  std::int64_t targets_ = 0;
  bool few_exchanged_ = false;    // a few numbers, which may be counts of targets
  bool is_weighed_ = false;       // a loss, by what may come of them
  bool is_shared_sum_ = false;    // the loss of the last backward, divided by what may come of them
  bool divides_by_rows_ = false;  // the root of the last surveyed one does, by those of its batch
  double rows_ = 0;               // of that batch
  DividedLoss divided_;
  std::int64_t backwards_ = 0;  // of that step
  std::set<std::int64_t> averaged_;
  BatchRequestEvent request_;  // the last one
  std::string sync_told_ = "-";
  std::string batch_told_;
  std::string random_told_;
  std::string loss_told_;
};

}  // namespace ddpscope
