#include "hooks/data_makers.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooks/capture.h"
#include "hooks/doing.h"
#include "hooks/value_reader.h"

namespace ddpscope {
namespace {
using Maker = DataMakers::Maker;
using Made = std::shared_ptr<const Maker>;

constexpr std::size_t kMaxMade = 4096;
constexpr std::size_t kMaxEntered = 4;
constexpr std::array<std::string_view, 20> kMakers = {
    "aten::acos",       "aten::asin",  "aten::atanh", "aten::div",      "aten::exp",
    "aten::logit",      "aten::log",   "aten::log10", "aten::log1p",    "aten::log2",
    "aten::mean",       "aten::pow",   "aten::rsqrt", "aten::sqrt",     "aten::std",
    "aten::reciprocal", "aten::xlogy", "aten::var",   "aten::std_mean", "aten::var_mean"};

struct Entered {
  std::string op;
  std::uint64_t thread = 0;
};

// Of all threads: a worker of a loader makes what another one trains with.
struct MakerTable {
  std::mutex mutex;
  std::unordered_map<TensorId, Made> made;
  std::vector<Entered> entered;  // whose results, or what came of them, entered gradient paths
};
MakerTable& maker_table() {
  static auto* const table = new MakerTable;
  return *table;
}

bool writes_in_place(std::string_view op) { return op.ends_with('_'); }

bool can_make_of_data(std::string_view op) {
  if (writes_in_place(op)) op.remove_suffix(1);
  return std::ranges::find(kMakers, op) != kMakers.end();
}

// None where an element cannot be read.
std::optional<ValueRange> values_of(const at::Tensor& tensor) {
  if (!tensor.is_floating_point() || tensor.numel() == 0) return ValueRange{};
  ValueRange values = range_of(tensor);
  if (values.elements == 0) values = numbers_in(tensor).range;
  return values.elements > 0 ? std::optional(values) : std::nullopt;
}

void add_values(std::optional<ValueRange>& sum, const at::Tensor& tensor) {
  const auto values = sum.has_value() ? values_of(tensor) : std::nullopt;
  if (values.has_value()) {
    add_to(*sum, *values);
  } else {
    sum.reset();
  }
}

std::optional<ValueRange> values_of(const WeakInputs& inputs) {
  std::optional<ValueRange> sum(std::in_place);
  for (const auto& weak : inputs) {
    const auto alive = weak.lock();
    if (!alive.defined()) return std::nullopt;
    add_values(sum, at::Tensor(alive));
  }
  return sum;
}

bool made_bad(const Made& made) { return made != nullptr && !made->values.is_finite(); }

Made maker_of_input(Capture& capture, const at::Tensor& tensor, MakerTable& table) {
  const TensorSlot* slot = capture.tensors().known(tensor);
  const auto found = slot == nullptr ? table.made.end() : table.made.find(slot->id);
  return found == table.made.end() ? nullptr : found->second;
}

/// Who made this result, or what it was computed from; null: nobody that is known.
Made maker_of_result(Capture& capture, const at::Tensor& output, const std::string& op,
                     const DataMakers::Begun& begun, const WeakInputs& inputs) {
  if (!begun.can_make) return begun.carried;
  const auto values = values_of(output);
  if (!values.has_value()) return begun.carried;
  if (values->is_finite()) {
    return std::make_shared<Maker>(Maker{.op = op, .values = *values, .inputs = {}});
  }
  const auto read = begun.inputs.has_value() ? begun.inputs : values_of(inputs);
  if (!read.has_value() || !read->is_finite()) return begun.carried;
  return std::make_shared<Maker>(Maker{.op = op,
                                       .values = *values,
                                       .inputs = *read,
                                       .output = describe(output, capture.id_of(output)),
                                       .by = doing_now(capture)});
}

void keep_made(Capture& capture, const at::Tensor& output, const Made& made) {
  MakerTable& table = maker_table();
  const TensorId id = capture.id_of(output);
  const std::lock_guard lock(table.mutex);
  if (table.made.size() >= kMaxMade) {
    std::vector<TensorId> ids;
    for (const auto& [tensor, maker] : table.made) ids.push_back(tensor);
    const auto alive = capture.tensors().alive(ids);
    std::erase_if(table.made, [&](const auto& entry) {
      return std::ranges::find(alive, entry.first) == alive.end();
    });
  }
  if (table.made.size() < kMaxMade) table.made[id] = made;
}

void enters_gradient_path(const Maker& maker, std::uint64_t thread) {
  MakerTable& table = maker_table();
  const std::lock_guard lock(table.mutex);
  if (table.entered.size() >= kMaxEntered) return;
  const bool is_known = std::ranges::any_of(table.entered, [&](const Entered& entered) {
    return entered.op == maker.op && entered.thread == thread;
  });
  if (!is_known) table.entered.push_back({maker.op, thread});
}
}  // namespace

DataMakers::Begun DataMakers::begin(Capture& capture, const at::RecordFunction& function) {
  Begun begun{.carried = nullptr, .can_make = can_make_of_data(function.name())};
  MakerTable& table = maker_table();
  {
    const std::lock_guard lock(table.mutex);
    if (!table.made.empty()) {
      for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
        Made made = maker_of_input(capture, tensor, table);
        if (begun.carried == nullptr || made_bad(made)) begun.carried = std::move(made);
      });
    }
  }
  if (!begun.can_make || !writes_in_place(function.name())) return begun;
  begun.inputs.emplace();
  for_each_tensor(function.inputs(),
                  [&](const at::Tensor& tensor) { add_values(begun.inputs, tensor); });
  begun.can_make = begun.inputs.has_value();
  return begun;
}

void DataMakers::end(Capture& capture, const at::RecordFunction& function, const Begun& begun,
                     const WeakInputs& inputs) {
  const std::string op = function.name();
  for_each_tensor(function.outputs(), [&](const at::Tensor& output) {
    if (!output.is_floating_point()) return;
    if (output.unsafeGetTensorImpl()->requires_grad()) {
      if (begun.carried != nullptr) enters_gradient_path(*begun.carried, thread_number());
      return;
    }
    const Made made = maker_of_result(capture, output, op, begun, inputs);
    if (made != nullptr) keep_made(capture, output, made);
  });
}

void DataMakers::explain(Capture& capture, NonfiniteOutputEvent& event) {
  if (event.source == 0) return;
  MakerTable& table = maker_table();
  const std::lock_guard lock(table.mutex);
  event.candidates.clear();
  const auto found = table.made.find(event.source);
  if (found == table.made.end() || found->second->values.is_finite()) {
    for (const Entered& entered : table.entered) {
      const bool was_seen = capture.marker().surveying() && entered.thread == event.at.thread;
      if (!was_seen) event.candidates.push_back(entered.op);
    }
    return;
  }
  const Maker& maker = *found->second;
  event = {.at = event.at,
           .place = {.module = maker.by.module},
           .op = maker.op,
           .output = maker.output,
           .values = maker.values,
           .inputs_known = true,
           .inputs = maker.inputs,
           .source = 0,
           .source_values = {},
           .made = maker.by,
           .candidates = {},
           .victims = event.victims};
}

}  // namespace ddpscope
