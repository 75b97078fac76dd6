#include "checks/stale_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "checks/call_text.h"
#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "checks/subtree.h"
#include "model/fact_keys.h"
#include "model/node_name.h"

namespace ddpscope {
namespace {
using enum Applicability;

std::string line_of_role(const Finding& finding, std::string_view role) {
  for (const Site& site : finding.sites) {
    if (site.role == role) return line_of(site);
  }
  return "";
}

WriterText unknown_writer(const StaleSavedEvent& event) {
  WriterText text;
  if (event.silent) {
    text.sentence = "a kernel, a raw pointer past LibTorch or set_data() changed it";
    text.fixes = {{"write it before the forward or behind its backward", kLikely},
                  {"in an own kernel: torch::autograd::impl::bump_version(tensor) for every tensor "
                   "that it writes, so that LibTorch notices",
                   kLikely}};
    return text;
  }
  if (event.rested) {
    text.sentence =
        "what wrote it was not recorded: ddpscope watched some steps only, to keep to "
        "its setting overhead";
    text.fixes = {{"run once with DDPSCOPE=overhead=1000, which watches every step", kSafe}};
    return text;
  }
  // The first work of a preloaded program.
  const bool began_before = event.at.step <= 1 && !event.saved.has_value();
  text.sentence = event.writer_evicted
                      ? "the write is older than the writes that ddpscope remembers"
                      : fmt::format(
                            "what wrote it was not seen: {}a custom operator, TorchScript "
                            "or a write through a raw pointer",
                            began_before ? "an operator before hooks stood, " : "");
  text.fixes = {{"DDPSCOPE=history=N with a larger N remembers more writes", kLikely}};
  if (!event.writer_evicted) {
    text.fixes = {
        {fmt::format("look between the save and this backward for {}operators that write their "
                     "inputs; clone() the tensor before them",
                     began_before ? "" : "custom "),
         kNeedsDecision}};
  }
  return text;
}

// Functions of a tensor that have no twin out of place, and what makes a new tensor instead.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNewInstead = {
    {{"aten::copy_", "{0} = the new value"},
     {"aten::fill_", "{0} = torch::full_like({0}, value)"},
     {"aten::zero_", "{0} = torch::zeros_like({0})"},
     {"aten::normal_", "{0} = torch::randn_like({0})"},
     {"aten::uniform_", "{0} = torch::rand_like({0})"},
     {"aten::random_", ""}}};

constexpr std::string_view kDetach =
    "detach() what one step hands to the next, as in h = h.detach()";

/// The graph of an earlier cycle hangs on this one's, as by a state that is carried over. Where
/// several optimizers step in turn, the first cycle is over before each of them has.
bool is_carried(const StaleSavedEvent& event, const RunState& state) {
  if (!event.saved.has_value() || event.saved->cycle == 0) return false;
  const bool may_be_of_one_turn =
      event.at.step - event.saved->step < std::ssize(state.optimizers());
  return event.saved->cycle < event.at.cycle && !may_be_of_one_turn;
}

bool is_parameter(const StaleSavedEvent& event, const RunState& state) {
  const TensorState* owner = owner_of(event.tensor, state);
  return owner != nullptr && !owner->is_buffer;
}

WriterText collective_text(const WritingCall& call, const std::string& line) {
  WriterText text{.kind = "collective", .op = std::string(call_word(call.kind))};
  text.sentence = fmt::format("{} #{}{} wrote it", text.op, call.seq,
                              line.empty() ? "" : fmt::format(" ({})", line));
  text.fixes = {
      {fmt::format("move the {} before the forward, or behind its backward", text.op), kLikely},
      {"clone() the tensor where forward uses it", kSafe}};
  return text;
}

WriterText writer_text(const StaleSavedEvent& event, const RunState& state, Finding& finding) {
  if (!event.writer.has_value()) return unknown_writer(event);
  const Doing& by = event.writer->by;
  const std::string line = add_site("changed", by.stack, state, finding);
  if (event.writer->call.has_value()) return collective_text(*event.writer->call, line);
  WriterText text{.kind = "operator", .op = event.writer->op};
  const auto optimizer = state.optimizers().find(by.optimizer);
  if (by.optimizer != 0 && optimizer != state.optimizers().end()) {
    text.kind = "optimizer";
    text.sentence = fmt::format("{}'s step() ({}{}) wrote it", optimizer_label(optimizer->second),
                                text.op, line.empty() ? "" : ", " + line);
    const Fix again = {"run the forward again after step()", kLikely};
    text.fixes = {{"run every backward() before any step()", kLikely}, again};
    if (is_carried(event, state)) {
      const Fix detach = {std::string(kDetach), event.after_forward ? kLikely : kNeedsDecision};
      text.fixes = event.after_forward ? std::vector<Fix>{detach} : std::vector<Fix>{again, detach};
    }
    return text;
  }
  text.sentence = fmt::format("{}{} wrote it", text.op, where_text(by, line, state));
  if (is_parameter(event, state)) {
    text.fixes = {{"write parameters when their backward() has ended", kLikely},
                  {"run the forward again after the write", kLikely}};
    text.fixes.push_back({std::string(kDetach), kNeedsDecision});
    return text;
  }
  if (const std::string instead = out_of_place(text.op, 'y'); !instead.empty()) {
    text.fixes.push_back({instead, kSafe});
  }
  text.fixes.push_back({"clone() the tensor before it is written", kSafe});
  return text;
}

void add_place(const StaleSavedEvent& event, const RunState& state, Finding& finding) {
  const Doing saved = event.saved.value_or(Doing{});
  place_at(saved, state, finding);
  if (const TensorState* owner = owner_of(event.tensor, state)) place_at(*owner, state, finding);
}
}  // namespace

std::string out_of_place(std::string op, char name) {
  if (!op.ends_with('_') || op.ends_with("__") || op.starts_with("aten::_")) return "";
  const auto known =
      std::ranges::find(kNewInstead, op, [](const auto& entry) { return entry.first; });
  if (known != kNewInstead.end()) {
    if (known->second.empty()) return "";
    return "out of place: " + fmt::format(fmt::runtime(known->second), name);
  }
  op.pop_back();
  return fmt::format("out of place: {0} = {0}.{1}(...)", name, op.substr(op.find("::") + 2));
}

Finding about_stale(const StaleSavedEvent& event, const RunState& state, WriterText& writer) {
  Finding finding;
  finding.severity = Severity::kError;
  finding.step = event.at.step;
  add_place(event, state, finding);
  finding.op = op_of_node(event.node);
  const StackId saved_stack = event.saved.has_value() ? event.saved->stack : 0;
  const std::string saved_line = add_site("saved", saved_stack, state, finding);
  writer = writer_text(event, state, finding);
  const bool complete = event.saved.has_value() && event.writer.has_value();
  finding.confidence = complete ? Confidence::kHigh : Confidence::kMedium;
  const TensorState* owner = owner_of(event.tensor, state);
  finding.facts = {{fact::kTensor, std::to_string(event.tensor.id)},
                   {fact::kOwner, owner != nullptr ? tensor_path(*owner) : ""},
                   {fact::kShape, shape_text(event.tensor.shape)},
                   {fact::kSavedVersion, static_cast<std::int64_t>(event.saved_version)},
                   {fact::kFoundVersion, static_cast<std::int64_t>(event.found_version)},
                   {fact::kSavedOp, finding.op},
                   {fact::kSavedSite, saved_line},
                   {fact::kWriterKind, writer.kind},
                   {fact::kWriterOp, writer.op},
                   {fact::kWriterSite, line_of_role(finding, "changed")},
                   {fact::kWritesBetweenCount, event.writes_since_save}};
  if (event.writer.has_value() && event.writer->call.has_value()) {
    const auto seq = static_cast<std::int64_t>(event.writer->call->seq);
    finding.facts.push_back({fact::kCollectiveSeq, seq});
  }
  return finding;
}

void say_norm(WriterText& writer, Finding& finding) {
  writer.sentence = "a forward of the layer in training mode updated it";
  writer.fixes = {{"run backward() before the forward in training mode", kLikely},
                  {"run both forwards in one mode", kLikely}};
  for (Fact& fact : finding.facts) {
    if (fact.key == fact::kWriterKind) fact.value = "operator";
    if (fact.key == fact::kWriterOp) fact.value = "aten::batch_norm";
  }
}

std::string who_wrote(const WriterText& writer, const StaleSavedEvent& event,
                      const Finding& finding) {
  if (!event.writer.has_value() && !event.silent) return writer.sentence;
  const std::string line = line_of_role(finding, "saved");
  const bool no_lines = event.writer.has_value() && event.writer->by.stack == 0;
  const std::int64_t writes = event.writes_since_save;
  return fmt::format("{} after forward saved it{}{}{}", writer.sentence,
                     line.empty() ? "" : fmt::format(" ({})", line),
                     writes > 1 ? fmt::format(", the first of {} writes", writes) : "",
                     no_lines ? "; next: DDPSCOPE=level=values records the lines of both" : "");
}

}  // namespace ddpscope
