#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/autograd_event.h"
#include "model/finding.h"

namespace ddpscope {

/// Who wrote a saved tensor, in the catalogue's words.
struct WriterText {
  std::string kind = "unknown";  ///< operator, optimizer, collective or unknown
  std::string op = {};
  std::string sentence = {};  ///< `Adam's step() (aten::addcdiv_, train.cpp:46) wrote it`
  std::vector<Fix> fixes = {};
};

/// A finding at the place of the saved tensor, with its sites and the facts that all checks about
/// stale tensors share; the sentences are left to the check.
Finding about_stale(const StaleSavedEvent& event, const RunState& state, WriterText& writer);

/// ` after forward saved it (model.cpp:71)`, of what is known.
std::string saved_text(const Finding& finding);

}  // namespace ddpscope
