#include "hooks/reduced_gradients.h"

#include <torch/optim.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <string_view>

#include "hooks/capture.h"
#include "hooks/gradient_flow.h"
#include "hooks/replica_bits.h"
#include "hooks/value_reader.h"
#include "hooks/write_scope.h"
#include "model/gradient_choice.h"
#include "model/reduction_event.h"

namespace ddpscope {
namespace {
constexpr double kSameDirection = 1 - 1e-6;  // square of the cosine

struct Chosen {
  ReducedGradient gradient;
  std::int64_t elements = 0;
  std::uint64_t first_write = 0;  ///< after it had arrived
  GradientSketch cleared;         ///< of what lay there and was cleared
  bool arrived = false;
  bool was_cleared = false;
  bool is_cleared = false;  ///< and nothing has arrived since
  bool changed = false;     ///< after that, and no multiple of the sum over ranks any more
  bool told = false;
  std::uint64_t issued_at = 0;  ///< to a collective, as it arrived: the number of the next write
};

struct ChosenOfStep {
  std::mutex mutex;
  std::int64_t step = 0;
  std::uint64_t first_call = 0;  ///< that averages: the number of the next write then
  std::vector<Chosen> all;

  Chosen* find(TensorId id) {
    const auto one =
        std::ranges::find(all, id, [](const Chosen& chosen) { return chosen.gradient.tensor; });
    return one == all.end() ? nullptr : &*one;
  }
};

ChosenOfStep& chosen() {
  static auto* const leaked = new ChosenOfStep;
  return *leaked;
}

struct Sketched {
  GradientSketch sketch;
  std::uint64_t fingerprint = 0;
};

std::optional<Sketched> sketch_of_values(const at::Tensor& gradient, std::int64_t elements) {
  auto data = readable_data(gradient);
  if (!data.has_value() || data->elements < elements) return std::nullopt;
  data->elements = elements;
  const TensorValues values = measure_values(*data);
  return Sketched{.sketch = sketch_in(values), .fingerprint = values.fingerprint};
}

std::optional<Sketched> sketch_of(const at::Tensor& leaf, std::int64_t elements) {
  if (!has_gradient(leaf)) return std::nullopt;
  return sketch_of_values(leaf.grad(), elements);
}

GradientSketch sum_of(GradientSketch a, const GradientSketch& b) {
  a.squares += b.squares;
  for (std::size_t i = 0; i < a.sums.size(); ++i) a.sums[i] += b.sums[i];
  return a;
}

bool is_multiple(const GradientSketch& a, const GradientSketch& b) {
  const auto dot = [](const GradientSketch& x, const GradientSketch& y) {
    return std::inner_product(x.sums.begin(), x.sums.end(), y.sums.begin(), 0.0);
  };
  const double cross = dot(a, b);
  return cross * cross >= kSameDirection * dot(a, a) * dot(b, b);
}

/// Factors are seen by themselves; what is copied came from a reduced buffer, once there is one.
bool keeps_it(std::uint64_t op, bool before) {
  using namespace std::string_view_literals;
  constexpr auto kNames = std::to_array(
      {"aten::copy_"sv, "aten::_foreach_copy_"sv, "aten::mul.out"sv, "aten::div.out"sv,
       "aten::div_.Scalar"sv, "aten::div_.Tensor"sv, "aten::mul_.Scalar"sv, "aten::mul_.Tensor"sv,
       "aten::_foreach_div_.Scalar"sv, "aten::_foreach_div_.Tensor"sv,
       "aten::_foreach_mul_.Scalar"sv, "aten::_foreach_mul_.Tensor"sv});
  const std::string_view name = writer_name(static_cast<std::uint16_t>(op));
  return !(before && name == kNames.front()) && std::ranges::find(kNames, name) != kNames.end();
}

void see_arrival(Chosen& one, const std::optional<Sketched>& read, std::uint64_t next_write) {
  one.arrived = read.has_value();
  one.changed = one.is_cleared = false;
  one.issued_at = 0;
  one.first_write = next_write;
  if (read.has_value()) one.gradient.before = read->sketch;
}

struct OfStorage {
  std::uint64_t storage = 0;
  Chosen* gradient = nullptr;
};

/// The program's own decay, noise or limits for elements: what remains is no sum over ranks.
void see_own_writes(const WriteLog& log, std::uint64_t call, std::vector<OfStorage>& gradients) {
  std::ranges::sort(gradients, {}, &OfStorage::storage);
  // Of views of one buffer the last one has arrived.
  std::uint64_t since = 1;
  for (const OfStorage& one : gradients) since = std::max(since, one.gradient->first_write);
  log.each_since(since, [&](const WriteRecord& record, std::uint64_t number) {
    const auto its = std::ranges::equal_range(gradients, record.storage, {}, &OfStorage::storage);
    for (const auto& [storage, one] : its)
      one->changed |= !keeps_it(record.op, number < (one->issued_at ? one->issued_at : call));
  });
}

const ReducedGradient& finished(Chosen& one) {
  ReducedGradient& gradient = one.gradient;
  // What the program wrote itself had not arrived as anything else.
  if (!one.arrived || one.is_cleared) gradient.before = gradient.after;
  if (one.changed || GradientFlow::is_compressed()) gradient.before = kNoSketch;
  if (one.was_cleared) gradient.total = sum_of(one.cleared, gradient.before);
  return gradient;
}

bool is_compared(const at::Tensor& parameter) {
  return parameter.requires_grad() && parameter.is_floating_point() && is_readable(parameter);
}

struct Parameters {
  std::vector<TensorId> ids;
  std::vector<std::int64_t> elements;
};

/// Once gradients arrived, of those that had one: a copy that one rank keeps must not move the
/// choice of the others.
Parameters compared_parameters(Capture& capture) {
  Parameters all, trained;
  for (const at::Tensor& parameter : capture.modules().own_tensors(/*buffers=*/false)) {
    if (!is_compared(parameter)) continue;
    const TensorSlot& slot = capture.tensors().slot(parameter);
    const bool had_one = slot.values.load(std::memory_order_relaxed) != nullptr;
    for (Parameters* const list : {&all, &trained}) {
      if (list == &trained && !had_one) continue;
      list->ids.push_back(slot.id);
      list->elements.push_back(parameter.numel());
    }
  }
  return trained.ids.empty() ? all : trained;
}
}  // namespace

void ReducedGradients::see_backward(Capture& capture) {
  GradientFlow::see_backward();
  begin_step(capture);
}

void ReducedGradients::begin_step(Capture& capture) {
  const CaptureOptions& options = capture.options();
  const std::int64_t step = capture.marker().completed_steps() + 1;
  const bool wanted =
      options.compares_ranks && options.values && reads_values() && is_reduction_step(step);
  wanted_.store(wanted, std::memory_order_relaxed);
  ChosenOfStep& state = chosen();
  const std::lock_guard lock(state.mutex);
  if (!wanted || state.step == step) return;
  state.step = step;
  state.first_call = 0;
  state.all.clear();
  const Parameters parameters = compared_parameters(capture);
  for (const ChosenGradient& one : choose_gradients(parameters.elements, step)) {
    state.all.push_back(
        {.gradient = {.tensor = parameters.ids[one.index]}, .elements = one.elements});
  }
}

void ReducedGradients::will_arrive(const TensorSlot& slot, const at::Tensor& leaf,
                                   GradientBefore before) noexcept {
  as_reader([&](Capture&) {
    ChosenOfStep& state = chosen();
    const std::lock_guard lock(state.mutex);
    Chosen* const one = state.find(slot.id.load(std::memory_order_relaxed));
    if (one == nullptr || !one->arrived) return;
    one->gradient.grew_after |= one->issued_at != 0;
    if (before == GradientBefore::kKept) return;
    // What was averaged or scaled was not cleared.
    const auto there = sketch_of(leaf, one->elements);
    if (there.has_value() && there->sketch.squares != 0) {
      one->gradient.grew_after |= !is_multiple(there->sketch, one->gradient.before);
      return;
    }
    one->cleared = sum_of(one->cleared, one->gradient.before);
    one->was_cleared = true;
  });
}

void ReducedGradients::arrived(const TensorSlot& slot, const at::Tensor& leaf) noexcept {
  as_reader([&](Capture& capture) {
    ChosenOfStep& state = chosen();
    const std::lock_guard lock(state.mutex);
    Chosen* const one = state.find(slot.id.load(std::memory_order_relaxed));
    if (one == nullptr) return;
    see_arrival(*one, sketch_of(leaf, one->elements), capture.writes().next());
  });
}

void ReducedGradients::arrives_at_hook(const TensorSlot& slot, const at::Tensor& leaf,
                                       const at::Tensor& incoming) noexcept {
  as_reader([&](Capture& capture) {
    ChosenOfStep& state = chosen();
    const std::lock_guard lock(state.mutex);
    Chosen* const one = state.find(slot.id.load(std::memory_order_relaxed));
    if (one == nullptr) return;
    const bool is_added = has_gradient(leaf);
    const at::Tensor& target = is_added ? leaf.grad() : leaf;
    see_arrival(*one, sketch_of_values(incoming, one->elements), capture.writes().next());
    // Of a sum the squares are not known, nor where another layout will have which element.
    const auto there = sketch_of(leaf, one->elements);
    one->changed = incoming.strides() != target.strides() ||
                   (is_added && (!there.has_value() || there->sketch.squares != 0));
  });
}

void ReducedGradients::cleared(Capture& capture,
                               const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  if (!are_wanted()) return;
  ChosenOfStep& state = chosen();
  const std::lock_guard lock(state.mutex);
  const auto waits = [](const Chosen& one) { return one.arrived && !one.told; };
  if (std::ranges::none_of(state.all, waits)) return;
  for (const auto& group : groups) {
    for (const at::Tensor& member : group.params()) {
      Chosen* const one = member.defined() ? state.find(capture.id_of(member)) : nullptr;
      if (one != nullptr) one->is_cleared = true;
    }
  }
}

void ReducedGradients::issued(const CollectiveEvent& event) {
  const Capture* const capture = Capture::active();
  if (!are_wanted() || !event.averages || capture == nullptr) return;
  ChosenOfStep& state = chosen();
  const std::lock_guard lock(state.mutex);
  if (state.first_call == 0) state.first_call = capture->writes().next();
  for (const TensorId parameter : event.gradients_of) {
    Chosen* const one = parameter == 0 ? nullptr : state.find(parameter);
    if (one != nullptr && one->issued_at == 0) one->issued_at = capture->writes().next();
  }
}

void ReducedGradients::changed(const TensorSlot& slot) noexcept {
  if (!are_wanted()) return;
  ChosenOfStep& state = chosen();
  const std::lock_guard lock(state.mutex);
  Chosen* const one = state.find(slot.id.load(std::memory_order_relaxed));
  if (one != nullptr) one->changed = true;
}

void ReducedGradients::before_step(Capture& capture,
                                   const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  if (returned_.exchange(false, std::memory_order_relaxed)) {
    ReplicaBits::see_backward(capture);
    begin_step(capture);
  }
  if (!are_wanted()) return;
  ReducedGradientsEvent event{.at = capture.marker().now(),
                              .watched = Capture::watch() != Watch::kNothing,
                              .gradients = {}};
  ChosenOfStep& state = chosen();
  const std::lock_guard lock(state.mutex);
  if (state.step != event.at.step) return;
  std::vector<OfStorage> read_ones;
  const auto read = [&](const at::Tensor& member) {
    if (!member.defined()) return;
    Chosen* const one = state.find(capture.id_of(member));
    if (one == nullptr || one->told) return;
    const auto now = sketch_of(member, one->elements);
    if (!now.has_value()) return;
    one->told = true;
    one->gradient.after = now->sketch;
    one->gradient.fingerprint = now->fingerprint;
    read_ones.push_back({storage_of(*member.grad().unsafeGetTensorImpl()), one});
  };
  for (const auto& group : groups) std::ranges::for_each(group.params(), read);
  if (!read_ones.empty()) see_own_writes(capture.writes(), state.first_call, read_ones);
  for (const OfStorage& one : read_ones) event.gradients.push_back(finished(*one.gradient));
  for (Chosen& one : state.all) {
    if (!one.told && one.arrived && !one.is_cleared) event.left.push_back(finished(one));
  }
  if (!event.gradients.empty() || !event.left.empty()) capture.put_large(std::move(event));
}

}  // namespace ddpscope
