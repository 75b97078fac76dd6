#include "checks/writing_threads.h"

#include <string_view>

#include "checks/subtree.h"

namespace ddpscope {

WrittenBy WritingThreads::of(const StaleSavedEvent& event, const RunState& state) const {
  const bool is_step = event.writer.has_value() && event.writer->by.optimizer != 0;
  if (!is_step || !state.several_threads_train()) return WrittenBy::kNotKnown;
  const auto known = threads_.find(event.writer->by.optimizer);
  if (known == threads_.end()) return WrittenBy::kStillStepping;
  if (!known->second.contains(event.at.thread)) return WrittenBy::kOtherThread;
  return known->second.size() == 1 ? WrittenBy::kThread : WrittenBy::kNotKnown;
}

bool WritingThreads::is_intended(const StaleSavedEvent& event, const TensorState* owner,
                                 const RunState& state) const {
  if (!state.several_threads_train() || of(event, state) == WrittenBy::kThread) return false;
  if (owner == nullptr || owner->registrations.empty()) return state.declared(0, "", "intended");
  return state.declared(owner->registrations.front().model, tensor_path(*owner), "intended");
}

void say_other_thread(WriterText& writer, Finding& finding) {
  constexpr std::string_view kWrote = " wrote it";
  finding.severity = Severity::kWarning;
  finding.module_path.clear();
  finding.subject.clear();
  finding.op.clear();
  if (writer.sentence.ends_with(kWrote)) {
    writer.sentence.resize(writer.sentence.size() - kWrote.size());
    writer.sentence += " on another thread wrote it";
  }
  writer.fixes = {{"where threads train the same memory on purpose, as Hogwild does: "
                   "DDPSCOPE=declare=*=intended, or a narrower glob",
                   Applicability::kNeedsDecision},
                  {"else parameters of its own for each thread, or one lock from the forward to "
                   "the end of step()",
                   Applicability::kLikely}};
}

}  // namespace ddpscope
