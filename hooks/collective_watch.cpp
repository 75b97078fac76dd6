#include "hooks/collective_watch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>

#include "hooks/autograd_watch.h"
#include "hooks/backend_groups.h"
#include "hooks/call_measure.h"
#include "hooks/call_names.h"
#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/gathered_values.h"
#include "hooks/gradient_scaling.h"
#include "hooks/loop_phase.h"
#include "hooks/model_discovery.h"
#include "hooks/norm_exchange.h"
#include "hooks/pending_gradients.h"
#include "hooks/reduced_gradients.h"
#include "hooks/replica_bits.h"
#include "hooks/rested_gradients.h"
#include "hooks/step_wait.h"
#include "hooks/update_order.h"
#include "model/clock.h"
#include "model/open_calls.h"

namespace ddpscope {
namespace {
constinit std::atomic<BackendSeen> backend_seen{nullptr};

std::uint32_t microseconds(std::int64_t ns) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ns / 1000, 0, 0xffffffff));
}

DDPSCOPE_HOT bool is_floating(const CallFacts& facts) {
  if (facts.raw.has_value()) {
    const std::string_view dtype = facts.raw->dtype;
    return dtype.starts_with("float") || dtype.starts_with("bfloat");
  }
  const bool known = !facts.tensors.empty() && facts.tensors[0].defined();
  return known && at::isFloatingType(facts.tensors[0].scalar_type());
}

/// What is summed up between a forward and the optimizer and is large: gradients that were copied.
/// What a function of the program sums up in its backward is the gradient of an output, as of a
/// layer that lies on several ranks.
DDPSCOPE_HOT bool is_bucket(Capture& capture, const CollectiveEvent& event, const CallFacts& facts,
                            Phase phase) {
  if (phase != Phase::kBackward && phase != Phase::kReduce) return false;
  if (!is_floating(facts) || !call_names().is_bucket(event.elements)) return false;
  if (phase == Phase::kReduce && UpdateOrder::leaf_was_written(capture)) return false;
  return phase != Phase::kBackward || !inside_own_function();
}

DDPSCOPE_HOT bool sums_up(const CallFacts& facts) {
  return reduces_tensors(facts.kind) &&
         (facts.reduce == ReduceKind::kSum || facts.reduce == ReduceKind::kAverage);
}

NameId name_raw(Capture& capture, const RawValues& raw, CollectiveEvent& event) {
  if (raw.at == nullptr) return 0;
  const CallOwner owner = call_names().owner_at(capture, raw.at, raw.elements);
  event.tensors.push_back(owner.tensor);
  event.gradients_of.push_back(owner.gradient_of);
  return owner.name;
}

/// Names the tensors in the event; the first one's owner is the owner of the call.
DDPSCOPE_HOT NameId name_tensors(Capture& capture, std::span<const at::Tensor> tensors,
                                 CollectiveEvent& event) {
  NameId first = 0;
  const std::size_t named = std::min(tensors.size(), kListedTensors);
  for (std::size_t i = 0; i < named; ++i) {
    if (!tensors[i].defined()) continue;
    const CallOwner owner = call_names().owner_of(capture, tensors[i]);
    if (i == 0) first = owner.name;
    event.tensors.push_back(owner.tensor);
    event.gradients_of.push_back(owner.gradient_of);
  }
  return first;
}

std::atomic<std::int64_t> issued_count{0}, last_seq{0};

DDPSCOPE_HOT std::unique_ptr<CollectiveEvent> call_event_of(Capture& capture,
                                                            const CallFacts& facts,
                                                            BackendGroup& group) {
  const Doing now = doing_now(capture);
  const bool is_message =
      facts.kind == CollectiveKind::kSend || facts.kind == CollectiveKind::kReceive;
  auto& counter = is_message ? group.messages : group.calls;
  auto event = std::make_unique<CollectiveEvent>(
      CollectiveEvent{.at = capture.marker().now(),
                      .seq = counter.fetch_add(1, std::memory_order_relaxed) + 1,
                      .group = group.group,
                      .group_size = group.size,
                      .backend = group.backend_name,
                      .kind = facts.kind,
                      .reduce = facts.reduce,
                      .coalesced = facts.coalesced,
                      .list = static_cast<std::int64_t>(facts.tensors.size()),
                      .waits = facts.waits,
                      .is_root = facts.root >= 0 && facts.root == group.rank,
                      .module = now.module,
                      .stack = now.stack});
  issued_count.fetch_add(1, std::memory_order_relaxed);
  last_seq.store(static_cast<std::int64_t>(event->seq), std::memory_order_relaxed);
  measure(facts, *event);
  return event;
}

DDPSCOPE_HOT CallRecord record_of(const CollectiveEvent& event, const CallFacts& facts) {
  return {.seq = event.seq,
          .group = event.group,
          .unix_ns = unix_ns(),
          .elements = static_cast<std::uint64_t>(event.elements),
          .step = static_cast<std::int32_t>(event.at.step),
          .list = static_cast<std::uint32_t>(event.list),
          .root = facts.root,
          .stack = event.stack,
          .kind = facts.kind,
          .reduce = facts.reduce,
          .phase = LoopPhase::now()};
}

DDPSCOPE_HOT void find_gradients(Capture& capture, const CallFacts& facts, CallRecord& record,
                                 CollectiveEvent& event) {
  const auto is_known = [](TensorId id) { return id != 0; };
  event.averages = std::ranges::any_of(event.gradients_of, is_known);
  if (event.averages || std::ranges::any_of(event.tensors, is_known)) return;
  CallLog* const log = capture.options().calls;
  const NameId bucket = log == nullptr ? 0 : call_names().bucket(*log);
  const bool holds_one = record.owner != 0 && record.owner == bucket;
  event.averages = holds_one || is_bucket(capture, event, facts, record.phase);
  // Where hooks rest, where gradients lie is not known: it may be one of them, as on other ranks.
  if (event.averages && Capture::watch() != Watch::kNothing) record.owner = bucket;
}

DDPSCOPE_HOT NameId dtype_of(CallLog& log, const CallFacts& facts) {
  if (facts.raw.has_value()) return *facts.raw->dtype == 0 ? 0 : log.name(facts.raw->dtype);
  const std::span<const at::Tensor> tensors = facts.tensors;
  const bool known = !tensors.empty() && tensors[0].defined();
  return known ? call_names().dtype(log, tensors[0].scalar_type()) : 0;
}

/// Returns the number of the call.
DDPSCOPE_HOT std::uint64_t note_call(Capture& capture, BackendGroup& group,
                                     const CallFacts& facts) {
  tell_scaling(capture);  // what was scaled before it
  std::unique_ptr<CollectiveEvent> told = call_event_of(capture, facts, group);
  CollectiveEvent& event = *told;
  CallRecord record = record_of(event, facts);
  record.owner = facts.raw.has_value() ? name_raw(capture, *facts.raw, event)
                                       : name_tensors(capture, facts.tensors, event);
  record.norm_call = NormExchange::call();
  event.of_norm = record.norm_call != 0;
  // What is sent has one length for all layers.
  if (event.of_norm) record.elements = static_cast<std::uint64_t>(NormExchange::channels());
  follow_gathered(capture, facts, event);
  const bool reduces_over_ranks = sums_up(facts) && event.group_size != 1;
  if (reduces_over_ranks && !event.of_norm) {
    find_gradients(capture, facts, record, event);
    const bool is_after_step = record.phase == Phase::kForward;
    if (is_after_step && !event.averages) ReplicaBits::see_sum(event.elements);
  }
  std::uint64_t place = 0;
  if (CallLog* const log = capture.options().calls) {
    if (event.of_norm) record.owner = log->name(NormExchange::layer());
    record.module = call_names().module(capture, event.module);
    record.dtype = dtype_of(*log, facts);
    place = log->issued(record);
  }
  if (event.averages) RestedGradients::averaging(capture, event);
  PendingGradients::issued(event, facts);
  ReducedGradients::issued(event);
  capture.contents().issued(capture, facts, event);
  const std::uint64_t number = open_calls().issued(place, record);
  capture.put(Event(std::move(told)));
  return number;
}

/// Writes how a call ended; `waited_ns` of the caller. What the backend told already, a caller who
/// hardly waited need not write again.
DDPSCOPE_HOT void note_end(Capture& capture, const OpenCalls::Call& call, std::int64_t waited_ns,
                           bool failed) {
  const std::uint32_t waited_us = microseconds(waited_ns);
  CallLog* const log = capture.options().calls;
  if (log == nullptr || (call.ended && waited_us == 0)) return;
  log->ended(call.place, waited_us, failed ? CallState::kFailed : CallState::kCompleted);
}

DDPSCOPE_HOT void tell_end(Capture& capture, const OpenCalls::Call& call, std::int64_t waited_ns,
                           bool threw) {
  note_end(capture, call, waited_ns, threw);
  const bool was_used = PendingGradients::ended(call.record.group, call.record.seq);
  capture.put(CollectiveEndEvent{.at = capture.marker().now(),
                                 .seq = call.record.seq,
                                 .group = call.record.group,
                                 .waited_ms = static_cast<double>(waited_ns) / 1e6,
                                 .in_backward = inside_backward(),
                                 .threw = threw,
                                 .waited = was_used ? doing_now(capture).stack : 0});
}
}  // namespace

IssuedCalls issued_calls_since(std::atomic<std::int64_t>& told) noexcept {
  const std::int64_t now = issued_count.load(std::memory_order_relaxed);
  const std::int64_t before = told.exchange(now, std::memory_order_relaxed);
  return {.count = now - before, .last_seq = last_seq.load(std::memory_order_relaxed)};
}

LoggedCall::LoggedCall(const c10d::Backend& backend, const CallFacts& facts) noexcept
    : exceptions_(std::uncaught_exceptions()) {
  nested_ = depth_ > 0;
  if (depth_++ > 0) return;
  start_discovery_session();  // ranks number their calls from one start on
  as_guest("collective", [&](Capture& capture) {
    number_ = note_call(capture, backend_groups().of(backend), facts);
    if (const BackendSeen seen = backend_seen.load(std::memory_order_relaxed)) seen(backend);
  });
}

LoggedCall::LoggedCall(BackendGroup& group, const CallFacts& facts) noexcept
    : exceptions_(std::uncaught_exceptions()) {
  nested_ = depth_ > 0;
  if (depth_++ > 0) return;
  start_discovery_session();
  as_guest("collective", [&](Capture& capture) { number_ = note_call(capture, group, facts); });
}

LoggedCall::~LoggedCall() noexcept {
  --depth_;
  if (number_ == 0 || std::uncaught_exceptions() <= exceptions_) return;
  as_guest("collective", [&](Capture& capture) {
    open_calls().returned(number_, nullptr);
    const auto call = open_calls().ended(number_);
    if (call) tell_end(capture, *call, steady_ns() - call->issued_ns, true);
  });
}

void LoggedCall::returned(const void* work) noexcept {
  if (number_ == 0) return;
  const std::optional<bool> failed = open_calls().returned(number_, work);
  if (failed.has_value()) ended(*failed);
  // It called others, and its `Work` waits for them in a way that is not seen.
  if (nested_) PendingGradients::told_otherwise(work);
}

void LoggedCall::ended(bool failed) noexcept {
  if (number_ == 0) return;
  as_guest("collective", [&](Capture& capture) {
    if (const auto call = open_calls().ended(number_)) note_end(capture, *call, 0, failed);
  });
}

// Both ends of a wait are brief: of those some are timed.
CallWait::CallWait(const void* work) noexcept : exceptions_(std::uncaught_exceptions()) {
  ++LoggedCall::waits_;
  as_guest(
      "collective",
      [&](Capture& capture) {
        tell_scaling(capture);  // what was scaled while the call ran
        number_ = open_calls().wait_began(work);
      },
      Timed::kSampled);
  if (number_ != 0) begin_ns_ = steady_ns();
}

CallWait::~CallWait() noexcept {
  --LoggedCall::waits_;
  if (number_ == 0) return;
  const std::int64_t waited_ns = steady_ns() - begin_ns_;
  if (LoggedCall::waits_ == 0) StepWait::add_exchange(waited_ns);
  const bool threw = std::uncaught_exceptions() > exceptions_;
  as_guest(
      "collective",
      [&](Capture& capture) {
        const auto call = open_calls().wait_ended(number_);
        if (call) tell_end(capture, *call, waited_ns, threw);
      },
      Timed::kSampled);
}

void tell_backends(BackendSeen seen) noexcept { backend_seen.store(seen); }

void call_ended(const void* work, bool failed) noexcept {
  as_guest(
      "collective",
      [&](Capture& capture) {
        const auto call = open_calls().backend_ended(work, failed);
        if (call) note_end(capture, *call, 0, failed);
      },
      Timed::kSampled);
}

}  // namespace ddpscope
