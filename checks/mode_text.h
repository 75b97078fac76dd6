#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// Normalisation layers of one model that update their statistics though they are frozen.
struct FrozenNorms {
  std::vector<std::string> paths;
  std::int64_t parameters = 0;
  bool is_all = false;  ///< no parameter of the model trains
};

/// An operator that ran in training mode during an evaluation.
struct InEval {
  std::string op;
  ModelId model = 0;
  std::string path = {};
  bool unregistered = false;
};

/// A model whose outputs are judged without grad while it is in training mode.
struct EvaluatedInTraining {
  std::string path = {};   ///< of the layer that ran as in training; empty: the root, or not known
  std::string op = {};     ///< that layer's
  std::string loss = {};   ///< what judged
  StackId stack = 0;       ///< of the first time
  std::int64_t step = 0;   ///< likewise
  std::int64_t times = 0;  ///< so far
};

/// The findings of module-mode.
Finding frozen_norm_updates(const ModelState& model, const FrozenNorms& norms, std::int64_t steps);
Finding eval_while_training(const ModelState& model, bool trained, std::int64_t steps);
Finding training_op_in_eval(const ModelState& model, const InEval& in_eval);
Finding evaluation_in_training(const ModelState& model, const EvaluatedInTraining& evaluated,
                               const RunState& state);

}  // namespace ddpscope
