#pragma once

#include <deque>
#include <map>
#include <string>

#include "checks/run_state.h"
#include "model/update_event.h"

namespace ddpscope {

/// The last 8 sampled updates of one parameter.
class UpdateWindow {
 public:
  static constexpr std::size_t kSamples = 8;

  void add(const ParameterUpdate& update);
  std::size_t samples() const { return samples_.size(); }
  bool is_full() const { return samples_.size() == kSamples; }
  const ParameterUpdate& last() const { return samples_.back(); }
  double ratio_median() const;
  double gradient_median() const;

  /// The learning rate rises: the warm-up is not over.
  bool is_warming_up() const { return samples_.back().lr > samples_.front().lr; }
  /// Four samples with a rate of 0 say as much as a full window does of any other.
  bool has_no_rate() const;
  /// It was 0 in each sample of the run.
  bool never_had_rate() const { return most_lr_ == 0 && last().lr == 0; }
  bool has_no_size() const;
  bool is_unchanged() const;
  /// A sample of the whole run told a change. Towards its end training moves what it moved before
  /// by less than float32 can tell.
  bool has_moved() const { return moved_; }
  /// Each sample's learning rate is nearly nothing beside the largest of the run. The end of a
  /// usual schedule is shorter than a window.
  bool has_lost_rate() const;
  bool is_exploding() const;
  /// Each sample tells how much changed; where none of a sample's values did, others may have.
  bool is_conclusive() const;

 private:
  std::deque<ParameterUpdate> samples_;
  bool moved_ = false;
  double most_lr_ = 0;
};

/// The rounds in which each member of an optimizer is sampled once: 16 steps or, after a rest of
/// more, the first that is watched.
class UpdateRounds {
 public:
  /// `watched`: of its steps; `step`: the number of this one.
  bool ends(std::int64_t watched, std::int64_t step);

 private:
  std::int64_t last_ = 0;
};

using UpdateWindows = std::map<TensorId, UpdateWindow>;

/// Of the norms of the gradients of the model's first and last matrix; infinite where unknown.
double gradient_ratio(const UpdateWindows& windows, const ModelState* model);
/// Some parameter has a learning rate, or may have one.
bool some_rate(const UpdateWindows& windows);
/// The largest of their medians.
double largest_gradient(const UpdateWindows& windows);
/// Why not even one is full after so many steps; empty where one is, or where they are too few.
std::string why_unfinished(const UpdateWindows& windows, std::int64_t steps);

}  // namespace ddpscope
