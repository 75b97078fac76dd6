#include "hooks/gradient_flow.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "hooks/capture.h"
#include "hooks/gradient_table.h"
#include "hooks/loop_phase.h"
#include "hooks/op_inputs.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMostComputed = 4096;

/// The memory of what was computed from gradients since the backward, on this thread.
std::vector<std::uint64_t>& computed() {
  static thread_local std::vector<std::uint64_t> storages;
  return storages;
}

bool is_of_gradients(const c10::TensorImpl& impl) {
  const void* const values = values_of(impl);
  const TensorSlot* const slot = gradient_table().find(values);
  if (slot != nullptr && slot->gradient_values.load(std::memory_order_relaxed) == values) {
    return true;
  }
  return std::ranges::find(computed(), storage_of(impl)) != computed().end();
}

bool compresses(std::string_view op) {
  using namespace std::string_view_literals;
  constexpr auto kNames = std::to_array({"bernoulli"sv,  "bmm"sv,         "ceil"sv,
                                         "clamp"sv,      "clamp_max"sv,   "clamp_min"sv,
                                         "floor"sv,      "ge"sv,          "gt"sv,
                                         "hardshrink"sv, "kthvalue"sv,    "linalg_qr"sv,
                                         "linalg_svd"sv, "masked_fill"sv, "masked_select"sv,
                                         "matmul"sv,     "mm"sv,          "quantize_per_tensor"sv,
                                         "rand_like"sv,  "round"sv,       "sgn"sv,
                                         "sign"sv,       "softshrink"sv,  "sort"sv,
                                         "svd"sv,        "threshold"sv,   "topk"sv,
                                         "where"sv});
  op.remove_prefix(std::min(op.size(), "aten::"sv.size()));
  if (op.ends_with('_')) op.remove_suffix(1);
  return std::ranges::find(kNames, op) != kNames.end();
}
}  // namespace

void GradientFlow::see_backward() noexcept { computed().clear(); }

bool GradientFlow::see_operator(Capture& capture, const at::RecordFunction& function) {
  if (!capture.options().compares_ranks || is_compressed() || LoopPhase::now() != Phase::kReduce) {
    return false;
  }
  // Of the second tensor of view_as() and its like only the shape counts, and a copy adds nothing.
  const std::string_view op = function.name();
  const bool combines = !op.ends_with("_as") && op != "aten::copy_";
  std::int64_t gradient = 0;  // elements of the first tensor, where it is of gradients
  bool is_first = true;
  bool reads = false;
  bool adds_weights = false;
  for_each_tensor(function.inputs(), [&](const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const bool is_one = is_of_gradients(impl);
    if (is_first && is_one) gradient = impl.numel();
    adds_weights |= !is_first && gradient > 1 && impl.numel() == gradient &&
                    (impl.requires_grad() || capture.tensors().is_followed(tensor));
    is_first = false;
    reads |= is_one;
  });
  if ((gradient > 1 && compresses(op)) || (adds_weights && combines)) {
    is_compressed_.store(true, std::memory_order_relaxed);
  }
  return reads;
}

void GradientFlow::see_result(const at::RecordFunction& function) {
  if (computed().size() > kMostComputed) computed().clear();
  for_each_tensor(function.outputs(), [](const at::Tensor& tensor) {
    const std::uint64_t storage = storage_of(*tensor.unsafeGetTensorImpl());
    if (std::ranges::find(computed(), storage) == computed().end()) computed().push_back(storage);
  });
}

}  // namespace ddpscope
