#pragma once

#include <string>
#include <string_view>

#include "checks/op_trace.h"
#include "model/finding.h"

namespace ddpscope {

/// A loss that normalizes what is normalized already, or expects what its input is not.
struct SoftmaxPattern {
  std::string_view producer;
  std::string_view consumer;
  std::string_view name;
  Severity severity = Severity::kWarning;
  std::string_view again;  ///< what the loss does with what it is given
  std::string_view why;
  std::string_view fix;
  bool takes_logits() const { return producer == "linear"; }
  /// What made its input is what harms, and belongs outside of training.
  bool is_one_too_many() const { return producer == "softmax" || producer == "sigmoid"; }
};

/// `softmax` of `aten::_softmax`, which is what autograd knows of it.
std::string base_name(std::string_view op);

/// Whether an operator normalizes, or expects what is normalized: few do.
bool normalizes(std::string_view op);

/// The pattern that the two operators form, the second of which reads the first; null if none.
const SoftmaxPattern* pattern_of(const OpTrace::Record& producer, const OpTrace::Record& loss,
                                 const OpTrace& trace);

/// Whether what a log-softmax returned goes into nll_loss: together they are cross_entropy.
bool is_cross_entropy(const OpTrace::Record& log_softmax, const OpTrace& trace);

}  // namespace ddpscope
