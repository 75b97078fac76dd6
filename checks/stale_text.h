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

/// `out of place: y = y.add(...)` in place of an operator that writes; "" where it has no twin.
std::string out_of_place(std::string op, char name);

/// A finding at the place of the saved tensor, with its sites and the facts that all checks about
/// stale tensors share; the sentences are left to the check.
Finding about_stale(const StaleSavedEvent& event, const RunState& state, WriterText& writer);

/// A forward updates running statistics past the version counter.
void say_norm(WriterText& writer, Finding& finding);

/// `aten::add_ (model.cpp:88) wrote it after forward saved it (model.cpp:71)`, of what is known;
/// and how to know more.
std::string who_wrote(const WriterText& writer, const StaleSavedEvent& event,
                      const Finding& finding);

}  // namespace ddpscope
