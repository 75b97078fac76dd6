#include "hooks/finite_ops.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddpscope {
namespace {
// Both in the order of the alphabet; names as LibTorch's nodes have them, without `Backward0`.
constexpr std::array<std::string_view, 76> kNothing = {"AdaptiveAvgPool2D",
                                                       "Abs",
                                                       "Add",
                                                       "Alias",
                                                       "AsStrided",
                                                       "AsStridedView",
                                                       "AvgPool1D",
                                                       "AvgPool2D",
                                                       "Cat",
                                                       "Chunk",
                                                       "Clamp",
                                                       "ClampMax",
                                                       "ClampMin",
                                                       "Clone",
                                                       "ConstantPadNd",
                                                       "CopySlices",
                                                       "CopyBackwards",
                                                       "Cos",
                                                       "Detach",
                                                       "Diagonal",
                                                       "Elu",
                                                       "Embedding",
                                                       "Expand",
                                                       "Gather",
                                                       "Gelu",
                                                       "Hardtanh",
                                                       "Index",
                                                       "IndexSelect",
                                                       "LeakyRelu",
                                                       "LogSigmoid",
                                                       "LogSoftmax",
                                                       "MaskedSelect",
                                                       "Max",
                                                       "Maximum",
                                                       "MaxPool2DWithIndices",
                                                       "Mean",
                                                       "Min",
                                                       "Minimum",
                                                       "NativeDropout",
                                                       "Neg",
                                                       "NllLoss",
                                                       "NllLoss2D",
                                                       "Permute",
                                                       "ReflectionPad2D",
                                                       "Relu",
                                                       "Repeat",
                                                       "ReshapeAlias",
                                                       "Rsub",
                                                       "Select",
                                                       "Sigmoid",
                                                       "Silu",
                                                       "Sin",
                                                       "Slice",
                                                       "Softmax",
                                                       "Softplus",
                                                       "Sort",
                                                       "Split",
                                                       "SplitWithSizes",
                                                       "Squeeze",
                                                       "Stack",
                                                       "Sub",
                                                       "Sum",
                                                       "SymSlice",
                                                       "T",
                                                       "Tanh",
                                                       "Threshold",
                                                       "ToCopy",
                                                       "TopK",
                                                       "Transpose",
                                                       "Trunc",
                                                       "Unbind",
                                                       "Unsqueeze",
                                                       "UnsafeSplit",
                                                       "UnsafeView",
                                                       "View",
                                                       "Where"};
constexpr std::array<std::string_view, 25> kByOverflow = {"Addbmm",
                                                          "Addcmul",
                                                          "Addmm",
                                                          "Addmv",
                                                          "Baddbmm",
                                                          "BinaryCrossEntropy",
                                                          "BinaryCrossEntropyWithLogits",
                                                          "Bmm",
                                                          "Convolution",
                                                          "Cumsum",
                                                          "DivBackward1",  // by a number
                                                          "Dot",
                                                          "HuberLoss",
                                                          "L1Loss",
                                                          "Linear",
                                                          "MkldnnConvolution",
                                                          "Mm",
                                                          "MseLoss",
                                                          "Mul",
                                                          "Mv",
                                                          "NativeBatchNorm",
                                                          "NativeGroupNorm",
                                                          "NativeLayerNorm",
                                                          "SmoothL1Loss",
                                                          "Square"};

constexpr double kLargestProduct = 1e15;  // of finite operands

template <std::size_t kSize>
bool has(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view without_number(std::string_view node) {
  return node.substr(0, node.rfind("Backward"));
}
}  // namespace

Makes makes_nonfinite(const std::string& node) {
  const std::string_view name = without_number(node);
  if (has(kNothing, name) || has(kNothing, node)) return Makes::kNothing;
  return has(kByOverflow, name) || has(kByOverflow, node) ? Makes::kByOverflow : Makes::kByDomain;
}

bool is_logarithm(const std::string& node) {
  const std::string_view name = without_number(node);
  return name == "Log" || name == "Log2" || name == "Log10";
}

bool leaves_domain(const std::string& node, double min, double absmax) {
  const std::string_view name = without_number(node);
  if (is_logarithm(node)) return min <= 0;
  if (name == "Acos" || name == "Asin") return absmax > 1;
  return name == "Atanh" && absmax >= 1;
}

bool is_softmax(std::string_view node) {
  return node.starts_with("Softmax") || node.starts_with("LogSoftmax");
}

bool is_cast(std::string_view node) { return node.starts_with("ToCopy"); }

bool keeps_no_operand(std::string_view node) {
  constexpr std::array<std::string_view, 5> kSums = {
      "AddBackward0", "SubBackward0", "WhereBackward0", "CatBackward0", "StackBackward0"};
  return std::ranges::find(kSums, node) != kSums.end();
}

bool overflows_in_half(std::string_view node) { return is_cast(node) || node.starts_with("Sum"); }

bool overflows_in_float(double absmax) { return absmax >= kLargestProduct; }

bool divides_safely(std::string_view node, double min) {
  return node.starts_with("Div") && min * kLargestProduct >= 1;
}

bool is_mean_in_range(std::string_view node, double absmax) {
  constexpr double kLargestHalf = 65504;
  return node.starts_with("MseLoss") && 4 * absmax * absmax < kLargestHalf;
}

bool is_average(std::string_view node) {
  return node.starts_with("Mean") || node.starts_with("Var") || node.starts_with("Std");
}

bool keeps_infinities(std::string_view node) {
  return node.starts_with("ScaledDotProduct") || node.starts_with("CtcLoss");
}

bool inverts_zero(std::string_view node) {
  return node.starts_with("Rsqrt") || node.starts_with("Reciprocal");
}

}  // namespace ddpscope
