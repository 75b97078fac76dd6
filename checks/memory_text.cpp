#include "checks/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "checks/byte_text.h"
#include "checks/finding_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
using enum Applicability;
constexpr double kDominant = 0.5;
constexpr double kFragmented = 0.2;
constexpr std::size_t kTopModules = 3;

// What makes a batch, or moves it.
constexpr auto kMakeBatch = std::to_array<std::string_view>(
    {"aten::arange", "aten::cat", "aten::clone", "aten::contiguous", "aten::copy_", "aten::empty",
     "aten::full", "aten::index", "aten::index_select", "aten::normal", "aten::normal_",
     "aten::ones", "aten::rand", "aten::randint", "aten::randn", "aten::stack", "aten::to",
     "aten::zeros"});

MemoryClass asked_for(const ErrorEvent& event) {
  if (event.phase == Phase::kOptimizer) return MemoryClass::kOptimizer;
  if (event.phase == Phase::kBackward) return MemoryClass::kGradients;
  if (event.module == 0) return MemoryClass::kBatch;
  return event.grad_mode ? MemoryClass::kSavedActivations : MemoryClass::kOther;
}

/// What an operator of a forward asks for.
MemoryClass computed(const OutOfMemory& what) {
  return what.grad_mode ? MemoryClass::kSavedActivations : MemoryClass::kOther;
}

std::string_view words_for(MemoryClass memory) {
  switch (memory) {
    case MemoryClass::kParameters:
      return "parameters are";
    case MemoryClass::kGradients:
      return "gradients are";
    case MemoryClass::kOptimizer:
      return "the state of optimizers is";
    case MemoryClass::kSavedActivations:
      return "activations saved for backward are";
    case MemoryClass::kBatch:
      return "the batch is";
    case MemoryClass::kOther:
      break;
  }
  return "other tensors are";
}

/// More than `share` of what there is.
bool exceeds(const std::optional<std::int64_t>& bytes, double share,
             const std::optional<std::int64_t>& of) {
  return bytes.has_value() && of.has_value() && *of > 0 &&
         static_cast<double>(*bytes) > share * static_cast<double>(*of);
}

/// A word of the catalogue; "" if nothing dominates.
std::string growth_cause(const OutOfMemory& what, const MemoryUse& asked) {
  const AllocationFailure& failure = what.failure;
  if (exceeds(failure.fragmented_bytes, kFragmented, failure.capacity_bytes)) {
    return "fragmentation";
  }
  if (exceeds(failure.foreign_bytes, kDominant, failure.capacity_bytes)) return "foreign_process";
  const MemoryClass largest = asked.largest();
  const bool is_named = largest == MemoryClass::kSavedActivations ||
                        largest == MemoryClass::kBatch || largest == MemoryClass::kOptimizer;
  const bool dominates = exceeds(asked.of(largest), kDominant, asked.all());
  return is_named && dominates ? std::string(word_of(largest)) : "";
}

std::string sentence(const OutOfMemory& what, const MemoryUse& asked, const std::string& cause) {
  const AllocationFailure& failure = what.failure;
  std::string text =
      fmt::format("out of memory on a request of {}{}; ", byte_text(failure.requested_bytes),
                  what.line.empty() ? "" : " at " + what.line);
  if (cause == "fragmentation") {
    return text + fmt::format("{} of {} are reserved and in no tensor",
                              byte_text(*failure.fragmented_bytes),
                              byte_text(*failure.capacity_bytes));
  }
  if (cause == "foreign_process") {
    return text + fmt::format("other processes hold {} of {}", byte_text(*failure.foreign_bytes),
                              byte_text(*failure.capacity_bytes));
  }
  const MemoryClass largest = asked.largest();
  text += fmt::format("with it {} {} of {}", words_for(largest), byte_text(asked.of(largest)),
                      byte_text(failure.capacity_bytes.value_or(asked.all())));
  if (what.use.batch_rows > 0) text += fmt::format(" at batch {}", what.use.batch_rows);
  return text;
}

void explain_growth(const OutOfMemory& what, const MemoryUse& asked, const std::string& cause,
                    Finding& finding) {
  const std::int64_t rows = what.use.batch_rows;
  if (cause == "saved_activations" || cause == "batch") {
    finding.why = "memory grows with the rows of a batch";
    if (rows > 0) {
      finding.why += fmt::format(": {} for each up to this operator",
                                 byte_text(asked.of(asked.largest()) / rows));
    }
    finding.fixes = {{"mini-batches, with accumulation if the large batch is wanted", kLikely},
                     {"evaluation under torch::NoGradGuard", kLikely},
                     {"recompute a part of the forward in backward", kNeedsDecision}};
  } else if (cause == "optimizer") {
    finding.why = "the optimizer keeps tensors of the size of the parameters";
    finding.fixes = {{"an optimizer with less state, such as SGD", kNeedsDecision}};
  } else if (cause == "fragmentation") {
    finding.why = "free memory lies in pieces that are smaller than the request";
    finding.fixes = {{"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", kLikely},
                     {"batches of equal shape", kLikely}};
  } else if (cause == "foreign_process") {
    finding.why = "the device is shared";
    finding.fixes = {{"end the other processes, or take another device", kNeedsDecision}};
  } else {
    finding.evidence_status = EvidenceStatus::kUndecided;
    finding.why = "no class of tensors holds more than half";
    finding.fixes = {{"a smaller batch or model", kNeedsDecision}};
  }
}

void add_facts(const OutOfMemory& what, const MemoryUse& asked, const std::string& cause,
               Finding& finding) {
  std::vector<std::string> classes, modules;
  for (std::size_t i = 0; i < kMemoryClasses; ++i) {
    classes.push_back(fmt::format("{} {}", word_of(static_cast<MemoryClass>(i)), asked.bytes[i]));
  }
  for (const MemoryOfModule& module : what.use.saved_by_module) {
    if (modules.size() < kTopModules) {
      modules.push_back(fmt::format("{} {}", module.path, module.bytes));
    }
  }
  if (!cause.empty()) finding.facts.push_back({fact::kCause, cause});
  finding.facts.push_back({fact::kBytesByClass, as_fact(classes)});
  finding.facts.push_back({fact::kRequestedBytes, what.failure.requested_bytes});
  if (what.free_bytes > 0) finding.facts.push_back({fact::kFreeBytes, what.free_bytes});
  if (const std::int64_t rows = what.use.batch_rows; rows > 0) {
    finding.facts.push_back({fact::kBatchRows, rows});
    const std::int64_t per_sample = asked.of(MemoryClass::kSavedActivations) / rows;
    finding.facts.push_back({fact::kBytesPerSample, per_sample});
  }
  finding.facts.push_back({fact::kTopModules, as_fact(modules)});
}
}  // namespace

void add_limit(double bytes_per_step, std::int64_t step, const HostCountsEvent& host,
               Finding& finding) {
  const auto left = static_cast<double>(host.limit_bytes - host.resident_bytes);
  if (host.limit_bytes <= 0 || left <= 0) return;
  const auto limit_step = step + static_cast<std::int64_t>(std::ceil(left / bytes_per_step));
  finding.what +=
      fmt::format("; {} are full near step {}", byte_text(host.limit_bytes), limit_step);
  finding.facts.push_back({fact::kLimitStep, limit_step});
}

OutOfMemory out_of_memory(const AllocationFailure& failure, const ErrorEvent& event,
                          const RunState& state) {
  OutOfMemory what{.failure = failure,
                   .use = memory_use(state),
                   .asked_for = asked_for(event),
                   .grad_mode = event.grad_mode,
                   .step = event.at.step,
                   .phase = event.phase};
  if (const ModelState* model = state.first_model()) what.model = model->label;
  if (const ModulePlace* place = state.place_of(event.module)) {
    what.module_path = place->path;
    what.model = state.models().at(place->model).label;
  }
  const HostCountsEvent& host = state.host();
  const std::int64_t left = host.limit_bytes - host.resident_bytes;
  what.free_bytes = failure.free_bytes.value_or(host.resident_bytes > 0 ? left : 0);
  return what;
}

void add_stack(ThrownIn thrown, OutOfMemory& what) {
  const bool makes_batch =
      thrown.op.empty() || std::ranges::find(kMakeBatch, thrown.op) != kMakeBatch.end();
  if (what.asked_for == MemoryClass::kBatch && !makes_batch) what.asked_for = computed(what);
  what.op = std::move(thrown.op);
  what.site = std::move(thrown.site);
  what.line = std::move(thrown.line);
}

void add_operator(const OperatorFailedEvent& event, const RunState& state, OutOfMemory& what) {
  what.op = event.op;
  const bool is_computed = std::ranges::any_of(
      event.inputs, [](const FailedInput& input) { return input.tensor.requires_grad; });
  // A forward of the program's own, whose module is not known.
  if (what.asked_for == MemoryClass::kBatch && is_computed) what.asked_for = computed(what);
  std::int64_t largest = 0;
  for (const FailedInput& input : event.inputs) {
    const TensorState* tensor = state.tensor(input.tensor.id);
    const bool registered = tensor != nullptr && !tensor->registrations.empty();
    const bool is_batch = !registered && !input.tensor.requires_grad && !input.tensor.shape.empty();
    if (!is_batch || bytes_of(input.tensor) <= largest || what.use.batch_rows > 0) continue;
    largest = bytes_of(input.tensor);
    what.use.batch_rows = input.tensor.shape.front();
  }
}

Finding finding_about(const OutOfMemory& what) {
  MemoryUse asked = what.use;
  asked.of(what.asked_for) += what.failure.requested_bytes;
  const std::string cause = growth_cause(what, asked);
  Finding finding;
  finding.step = what.step;
  finding.phase = what.phase;
  finding.model = what.model;
  finding.module_path = what.module_path;
  finding.op = what.op;
  finding.evidence_status = EvidenceStatus::kSupported;
  if (!what.site.frames.empty()) finding.sites.push_back(what.site);
  finding.what = sentence(what, asked, cause);
  explain_growth(what, asked, cause, finding);
  add_facts(what, asked, cause, finding);
  return finding;
}

}  // namespace ddpscope
