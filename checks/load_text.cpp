#include "checks/load_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "checks/finding_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr std::size_t kMaxLoaded = 64;

Finding of(const ArchiveVisit& visit, const std::string& cause) {
  Finding finding;
  finding.phase = Phase::kInit;
  finding.model = visit.model->label;
  finding.facts = {{fact::kCause, cause}};
  return finding;
}

/// `first`, which lies at `path`, stands for all of them.
void tell_form(const ArchiveTensorEvent& first, const std::string& path, std::size_t count,
               Finding& finding) {
  const std::string tensors = counted(static_cast<std::int64_t>(count), "tensor");
  if (first.now.dtype != first.old_dtype) {
    finding.what = fmt::format(
        "load read {} of another type: {} is {} in the file, {} in the model (reshaped)", tensors,
        path, first.now.dtype, first.old_dtype);
    finding.why = "a load converts no numbers: it takes the bytes of the file as they are";
    finding.fixes = {{"to() the type of the file before the load, and back after it", kLikely},
                     {"save the model in the type that loads it", kLikely}};
    return;
  }
  finding.what = fmt::format("load changed the form of {}: {} is {} {} now, was {} {} (reshaped)",
                             tensors, path, shape_text(first.now.shape), first.now.dtype,
                             shape_text(first.old_shape), first.old_dtype);
  finding.why = "a load takes the shape of the file, whatever the model was built with";
  finding.fixes = {{"construct the model for the file", kLikely},
                   {"load the other tensors by name and leave these out", kNeedsDecision}};
}
}  // namespace

Finding load_reshaped(const ArchiveVisit& visit,
                      const std::vector<const ArchiveTensorEvent*>& reshaped,
                      const RunState& state) {
  const ArchiveTensorEvent& first = *reshaped.front();
  const TensorState& tensor = *state.tensor(first.tensor);
  Finding finding = of(visit, "reshaped");
  finding.severity = Severity::kError;
  finding.module_path = tensor.registrations.front().module_path;
  if (reshaped.size() == 1) finding.subject = tensor.registrations.front().name;
  std::vector<std::string> paths;
  for (const ArchiveTensorEvent* event : reshaped) {
    const Registration& at = state.tensor(event->tensor)->registrations.front();
    finding.module_path = common_path(finding.module_path, at.module_path);
    if (paths.size() < kMaxLoaded) paths.push_back(tensor_path(*state.tensor(event->tensor)));
  }
  tell_form(first, paths.front(), reshaped.size(), finding);
  finding.facts.push_back({fact::kReshapedPaths, as_fact(paths)});
  finding.facts.push_back({fact::kOldShape, shape_text(first.old_shape)});
  finding.facts.push_back({fact::kNewShape, shape_text(first.now.shape)});
  return finding;
}

Finding load_changed_few(const ArchiveVisit& visit, const std::set<TensorId>& changed,
                         const RunState& state) {
  std::vector<const TensorState*> unchanged = expected_by(visit, state);
  const auto total = static_cast<std::int64_t>(unchanged.size());
  std::erase_if(unchanged, [&changed](const TensorState* tensor) {
    return changed.contains(tensor->info.id);
  });
  const bool none = changed.empty();
  Finding finding = of(visit, none ? "unchanged" : "partial");
  finding.severity = none && visit.read.empty() ? Severity::kWarning : Severity::kNote;
  finding.what = fmt::format("load changed {} of {} ({})", changed.size(), counted(total, "tensor"),
                             none ? "unchanged" : "partial");
  if (!visit.missing.empty()) {
    finding.why = fmt::format("the archive does not hold {} that were asked for, first \"{}\"",
                              counted(static_cast<std::int64_t>(visit.missing.size()), "name"),
                              visit.missing.front()->key);
  } else if (none) {
    finding.why = "what was loaded equals what the tensors held before";
  } else {
    finding.why = "the archive was asked for no others";
  }
  if (!unchanged.empty()) {
    finding.why += "; largest unchanged " + joined(largest_shapes(unchanged));
  }
  finding.fixes = {{"save and load the same root; strip the prefix of the names", kLikely},
                   {"check what each try_read returns", kLikely},
                   {"declare the model intended, if it is a partial load", kNeedsDecision}};
  finding.facts.push_back({fact::kChangedCount, static_cast<std::int64_t>(changed.size())});
  finding.facts.push_back({fact::kTotalCount, total});
  return finding;
}

Finding save_incomplete(const ArchiveVisit& visit, const std::vector<const TensorState*>& loose) {
  Finding finding = of(visit, "incomplete");
  finding.severity = Severity::kError;
  finding.what = fmt::format("the file holds {}, and not {} ({}) that the loss uses (incomplete)",
                             counted(static_cast<std::int64_t>(visit.written.size()), "tensor"),
                             counted(static_cast<std::int64_t>(loose.size()), "trainable tensor"),
                             counted(elements_of(loose), "element"));
  finding.why =
      "save writes registered tensors only; largest missing " + joined(largest_shapes(loose));
  finding.fixes = {{"register them before saving (module-unregistered)", kLikely}};
  finding.facts.push_back(
      {fact::kTotalCount, static_cast<std::int64_t>(visit.written.size() + loose.size())});
  return finding;
}

Finding save_unreadable(const ArchiveVisit& visit, const TensorGroup& group) {
  Finding finding = of(visit, "unreadable_name");
  finding.severity = Severity::kError;
  finding.module_path = group.module_path;
  finding.subject = group.subject;
  std::vector<std::string> words;
  for (const TensorState* tensor : group.tensors) {
    std::string word = "\"" + unreadable_part(tensor_path(*tensor)) + "\"";
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  }
  const auto others = static_cast<std::int64_t>(group.tensors.size()) - 1;
  finding.what = fmt::format(
      "saved under \"{}\"{}: the file cannot be loaded, {} {} of the archive's language "
      "(unreadable_name)",
      tensor_path(*group.tensors.front()),
      others > 0 ? fmt::format(" and {}", counted(others, "such name")) : "", joined(words),
      words.size() == 1 ? "is a word" : "are words");
  finding.why = "loading ends with \"expected ident but found\"";
  finding.fixes = {{"register it under another name before saving", kLikely}};
  return finding;
}

}  // namespace ddpscope
