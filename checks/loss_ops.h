#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// What an operator of the trace read, as it was before it was expanded.
struct Operand {
  TensorId id = 0;
  std::vector<std::int64_t> shape;
  bool requires_grad = false;
  bool computed = false;    ///< by an operator of this step
  bool registered = false;  ///< it, or what it is a view of
  bool reshaped = false;    ///< a view made its shape: unsqueeze, transpose and their like
};

/// The operand; nothing where no event told its shape.
std::optional<Operand> operand_of(const RunState& state, TensorId id);

/// What an operator returned as `id`, or wrote into it; null if it did neither.
const OpTrace::Output* output_of(const OpTrace::Record& made, TensorId id);

/// The operator whose values `id` holds, behind views and casts; null if none of this step is.
const OpTrace::Record* maker_behind_views(const OpTrace& trace, TensorId id);

inline constexpr int kAnyDistance = 1 << 20;
/// The operators from which at most `distance` others lie before what returned one of the roots.
std::vector<const OpTrace::Record*> records_before(const OpTrace& trace,
                                                   const std::vector<TensorId>& roots,
                                                   int distance);

/// The nearest model that what an operator read has its gradient path from; null: none is known.
const ModelState* model_behind(const OpTrace::Record& record, const RunState& state);

/// A finding of the forward at the module that ran this operator; where none did, in the model
/// behind it.
Finding finding_at(const OpTrace::Record& record, const RunState& state);

}  // namespace ddpscope
