#pragma once

#include <cstdint>
#include <map>

#include "exchange/digest_walk.h"

namespace ddpscope {

/// The calls of one rank that were given tensors without a name, by step.
class UnnamedCalls {
 public:
  void add(const CallRecord& call, bool is_floating);
  /// Whether ranks gave each other what a forward or backward computes: they gathered or exchanged
  /// more than a few numbers before the gradients were there, sent some and received others, and it
  /// was not all of their `weights`.
  bool may_bring_activations(std::int64_t step, std::uint64_t weights) const;

 private:
  struct OfStep {
    std::uint64_t gathered = 0;  ///< elements of all ranks, before the gradients
    bool before_gradients = false;
    bool sent = false;
    bool received = false;
  };
  std::map<std::int64_t, OfStep> steps_;
};

/// Those of the first of these ranks that others of them take part in, as far as groups tell.
UnnamedCalls unnamed_calls_among(const RingList& rings);

}  // namespace ddpscope
