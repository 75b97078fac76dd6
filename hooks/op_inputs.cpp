#include "hooks/op_inputs.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "hooks/capture.h"

namespace ddpscope {
namespace {
constexpr unsigned char kSignBit = 0x80;

// Zero is all bytes zero but, of a floating number, the sign in the last byte.
bool is_zero(const c10::TensorImpl& number) {
  const std::span bytes(static_cast<const unsigned char*>(number.data()),
                        number.dtype().itemsize());
  const bool is_signed_zero = c10::isFloatingType(c10::typeMetaToScalarType(number.dtype()));
  const unsigned char last = bytes.back() & (is_signed_zero ? ~kSignBit : 0xff);
  return last == 0 && std::ranges::all_of(bytes.first(bytes.size() - 1),
                                          [](unsigned char byte) { return byte == 0; });
}

bool is_number_on_host(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.is_cpu() && impl.layout() == c10::kStrided && impl.dim() == 0 &&
         !impl.requires_grad() && impl.has_storage() && impl.storage_initialized();
}

bool is_zero(const c10::IValue& value) {
  if (value.isDouble()) return value.toDouble() == 0;
  if (value.isInt()) return value.toInt() == 0;
  if (!value.isTensor()) return false;
  const at::Tensor& tensor = value.toTensor();
  return tensor.defined() && is_number_on_host(tensor) && is_zero(*tensor.unsafeGetTensorImpl());
}

}  // namespace

std::optional<double> number_of(const c10::IValue& value) {
  if (value.isDouble()) return value.toDouble();
  if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
  const c10::TensorImpl& impl = *value.toTensor().unsafeGetTensorImpl();
  if (!is_number_on_host(value.toTensor())) return std::nullopt;
  if (impl.dtype().Match<double>()) return *static_cast<const double*>(impl.data());
  if (impl.dtype().Match<float>()) return *static_cast<const float*>(impl.data());
  return std::nullopt;
}

namespace {
std::optional<double> any_number(const c10::IValue& value) {
  if (value.isInt()) return static_cast<double>(value.toInt());
  if (value.isTensor() && value.toTensor().defined() && is_number_on_host(value.toTensor())) {
    const c10::TensorImpl& impl = *value.toTensor().unsafeGetTensorImpl();
    if (impl.dtype().Match<std::int64_t>()) {
      return static_cast<double>(*static_cast<const std::int64_t*>(impl.data()));
    }
  }
  return number_of(value);
}
}  // namespace

std::vector<double> constants_of(const at::RecordFunction& function) {
  std::vector<double> constants;
  for (const c10::IValue& value : function.inputs()) {
    if (const auto number = number_of(value)) constants.push_back(*number);
  }
  return constants;
}

double factor_of(const at::RecordFunction& function) {
  std::string_view name = function.name();
  if (name.ends_with('_')) name.remove_suffix(1);
  const bool divides = name == "aten::div";
  const auto inputs = function.inputs();
  if ((!divides && name != "aten::mul") || inputs.size() != 2) return 1;
  std::optional<double> number = any_number(inputs[1]);
  if (!number.has_value() && !divides) number = any_number(inputs[0]);
  if (!number.has_value()) return 1;
  return divides ? 1 / *number : *number;
}

std::optional<std::int64_t> softmax_dim(const at::RecordFunction& function) {
  if (!std::string_view(function.name()).ends_with("softmax")) return std::nullopt;
  const auto inputs = function.inputs();
  if (inputs.size() < 2 || !inputs[0].isTensor() || !inputs[1].isInt()) return std::nullopt;
  const at::Tensor& input = inputs[0].toTensor();
  if (!input.defined()) return std::nullopt;
  const std::int64_t dim = inputs[1].toInt();
  return dim < 0 ? dim + input.dim() : dim;
}

std::optional<double> number_read(const at::RecordFunction& function) {
  if (function.outputs().size() != 1 || !function.outputs()[0].isDouble()) return std::nullopt;
  return function.outputs()[0].toDouble();
}

bool multiplies_by_zero(const at::RecordFunction& function) {
  const char* name = function.name();
  if (std::strcmp(name, "aten::mul") != 0 && std::strcmp(name, "aten::mul_") != 0) return false;
  return std::ranges::any_of(function.inputs(),
                             [](const c10::IValue& value) { return is_zero(value); });
}

WeakInputs written_by_call(const at::RecordFunction& function) {
  WeakInputs written;
  const auto inputs = function.inputs();
  // The schema is a copy, which takes long.
  if (inputs.empty() || !inputs[0].isTensorList()) return written;
  if (!std::string_view(function.name()).ends_with('_')) return written;
  const auto schema = function.operator_schema();
  if (!schema.has_value() || !schema->returns().empty()) return written;
  const auto& arguments = schema->arguments();
  for (std::size_t i = 0; i < std::min(arguments.size(), inputs.size()); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    for_each_tensor(inputs.slice(i, 1), [&](const at::Tensor& tensor) {
      written.emplace_back(tensor.getIntrusivePtr());
    });
  }
  return written;
}

WeakInputs weak_inputs(const at::RecordFunction& function) {
  WeakInputs inputs;
  for_each_tensor(function.inputs(),
                  [&](const at::Tensor& tensor) { inputs.emplace_back(tensor.getIntrusivePtr()); });
  return inputs;
}

std::vector<FailedInput> describe_inputs(Capture& capture, const WeakInputs& inputs) {
  std::vector<FailedInput> described;
  for (const auto& weak : inputs) {
    const auto impl = weak.lock();
    if (!impl.defined()) continue;
    const at::Tensor tensor(impl);
    FailedInput input{.tensor = describe(tensor, capture.announce(tensor))};
    if (!input.tensor.shape.empty()) {
      const auto strides = impl->strides();
      input.strides.assign(strides.begin(), strides.end());
    }
    described.push_back(std::move(input));
  }
  return described;
}

}  // namespace ddpscope
