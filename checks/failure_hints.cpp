#include "checks/failure_hints.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace ddpscope {
namespace {
using enum Applicability;

struct Hint {
  std::string_view text;  ///< what the exception says
  std::string_view why;
  std::vector<Fix> fixes;
  bool of_bucket_views = false;  ///< true only beside a Reducer whose gradients are such
};

// Never destroyed: the last events are judged while the process exits.
const std::vector<Hint>& shape_hints() {
  const std::vector<Fix> pad = {
      {"pad to one length in the collate step before torch::stack", kLikely}};
  static const auto* const known = new std::vector<Hint>{
      {"view size is not compatible",
       "view needs a layout that the input does not have",
       {{"reshape(...) instead of view(...)", kSafe}, {"contiguous() before view", kSafe}}},
      {"stack expects each tensor to be equal size", "the samples differ in size", pad},
      {"should be of equal size", "the samples differ in size", pad},
      {"shapes cannot be multiplied",
       "the width of the input is not what the layer was built for",
       {{"build the layer for this input width", kLikely},
        {"flatten or transpose the input before it", kNeedsDecision}}},
      {"channels, but got",
       "the input has other channels than the layer was built for",
       {{"build the layer for this number of channels", kLikely},
        {"permute({0, 3, 1, 2}) before it, where images come as rows, columns and channels",
         kNeedsDecision},
        {"unsqueeze(1) before it, where a batch of images of one channel has no dimension for it",
         kNeedsDecision}}},
      {"must be equal to input_size",
       "the last dimension of the input is not the width that the layer was built for",
       {{"build the layer for this input width", kLikely},
        {"transpose what comes as batch, features and time", kNeedsDecision}}},
  };
  return *known;
}

const std::vector<Hint>& list_hints() {
  static const auto* const known = new std::vector<Hint>{
      {"to match target batch_size",
       "input and target have other numbers of rows",
       {{"one target per row of the input: view({-1, classes}) and view(-1) where each row has "
         "several",
         kLikely}}},
      {"multi-target not supported",
       "labels are one class for each row, here each row has several",
       {{"squeeze(1) where there is one in each row", kLikely},
        {"argmax(1) where rows are one-hot", kNeedsDecision}}},
      {"must match the size of tensor b",
       "the shapes neither agree nor broadcast: they are aligned from the last dimension on",
       {{"unsqueeze or transpose the one that lacks a dimension", kNeedsDecision}}},
      {"must match except in dimension",
       "all other dimensions have to agree",
       {{"pad to one length before torch::cat, or join along another dimension", kLikely}}},
      {"expects a non-empty TensorList",
       "its list is empty, as where no sample was left",
       {{"leave out what has no samples before it", kLikely}}},
  };
  return *known;
}

const std::vector<Hint>& value_hints() {
  const std::vector<Fix> memory = {
      {"less at once: memory-out-of-memory says what holds it", kLikely}};
  constexpr std::string_view kOutside = "an index is not below the size of what it picks from";
  const std::vector<Fix> from_zero = {
      {"labels and indices from 0 to that size less 1: those that begin at 1, or mark what is to "
       "be left out, lie outside",
       kLikely},
      {"build the layer, or the tensor that is written, for as many", kNeedsDecision}};
  static const auto* const known = new std::vector<Hint>{
      {"out of bounds for dimension", kOutside, from_zero},
      {"is out of bounds.", kOutside, from_zero},
      {"index out of range", kOutside, from_zero},
      {"can't allocate memory", "memory ran out", memory},
      {"out of memory", "memory ran out", memory},
      {kUndefinedArgument,
       "the program passed an undefined tensor, as grad() of what no backward filled",
       {{"update values in place: torch::NoGradGuard guard; weight.sub_(rate * weight.grad()); "
         "what weight = weight - ... assigns is no leaf, and gets no gradient",
         kLikely},
        {"ask defined() before it", kLikely}}},
      {"contains either `inf`, `nan`",
       "its probabilities are NaN, Inf or below 0",
       {{"look for what made NaN or Inf first: numeric-nonfinite-forward and -backward name it",
         kLikely},
        {"probabilities of softmax, which are never below 0", kNeedsDecision}}},
      {"contained non-finite values",
       "NaN or Inf is in what it reads",
       {{"look for what made NaN or Inf first: numeric-nonfinite-forward and -backward name it",
         kLikely}}},
      {"elements of target should be between 0 and 1",
       "its target is no probability",
       {{"targets of 0 to 1", kLikely}}},
      {"should be between 0 and 1",
       "its input is no probability",
       {{"sigmoid before it, or binary_cross_entropy_with_logits", kLikely},
        {"look for NaN in what enters it", kNeedsDecision}}},
  };
  return *known;
}

const std::vector<Hint>& dtype_hints() {
  constexpr std::string_view kDtypes = "its inputs differ in dtype";
  constexpr std::string_view kLabels = "labels and indices are int64";
  const std::vector<Fix> to_labels = {{"to(torch::kLong) of the labels or indices", kLikely}};
  const std::vector<Fix> cast = {
      {"to() the dtype of the weights for what comes from outside, as data read as float64",
       kLikely}};
  const std::vector<Fix> from_bytes = {
      {"to(torch::kFloat) of the bytes before it, and div(255) where they are an image", kLikely}};
  const std::vector<Fix> to_float = {
      {"to(torch::kFloat) of the target: labels and one_hot are int64", kLikely}};
  static const auto* const known = new std::vector<Hint>{
      {"expected scalar type Long", kLabels, to_labels},
      {"scalar types: Long, Int", kLabels, to_labels},
      {"got Byte and", kDtypes, from_bytes},
      {"type (unsigned char)", kDtypes, from_bytes},
      {"scalar type Byte", kDtypes, from_bytes},
      {"Found dtype Long but expected", kDtypes, to_float},
      {"can't be cast to the desired output type Long", kDtypes, to_float},
      {"to have the same dtype", kDtypes, cast},
      {"must have the same dtype", kDtypes, cast},
      {"expected scalar type", kDtypes, cast},
      {"and bias type (", kDtypes, cast},
      {"and weight type (", kDtypes, cast},
      {"Found dtype ", kDtypes, cast},
  };
  return *known;
}

const std::vector<Hint>& autograd_hints() {
  static const auto* const known = new std::vector<Hint>{
      {"leaf Variable that requires grad is being used in an in-place",
       "it writes a parameter while grad mode is on",
       {{"torch::NoGradGuard around what initialises or updates parameters", kSafe}}},
      {"Inference tensors cannot be",
       "a tensor that was made in InferenceMode takes no part in autograd",
       {{"clone() it outside of InferenceMode", kSafe},
        {"torch::NoGradGuard in place of InferenceMode", kLikely}}},
      {"Can't detach views in-place",
       "with gradient_as_bucket_view gradients are views of the buckets of c10d::Reducer, and "
       "Optimizer::zero_grad() detaches each gradient in place, whether it sets to none or to zero",
       {{"zero_grad() of the module in place of that of the optimizer", kSafe},
        {"set gradients to zero in place: parameter.mutable_grad().zero_()", kSafe},
        {"build the Reducer without gradient_as_bucket_view", kLikely}},
       /*of_bucket_views=*/true},
      {"Can't detach views in-place",
       "a gradient that the program assigned is a view, which zero_grad() cannot detach",
       {{"set what it is a view of to zero in place, without zero_grad() of the optimizer",
         kLikely},
        {"assign a clone() of it, unless the gradients are to stay one buffer that is reduced",
         kNeedsDecision}}},
  };
  return *known;
}

const Hint* hint_for(const std::string& message, const RunState& state) {
  for (const auto* const hints :
       {&shape_hints(), &list_hints(), &value_hints(), &dtype_hints(), &autograd_hints()}) {
    for (const Hint& hint : *hints) {
      const bool is_here = !hint.of_bucket_views || state.has_bucket_views();
      if (is_here && message.find(hint.text) != std::string::npos) return &hint;
    }
  }
  return nullptr;
}
}  // namespace

std::string first_line_thrown(const std::string& message) {
  return message.substr(0, message.find('\n'));
}

void explain_failure(const std::string& message, const RunState& state, Finding& finding) {
  finding.why = first_line_thrown(message);
  finding.fixes = {{"compare the shapes with what the operator expects", kNeedsDecision}};
  const Hint* const hint = hint_for(message, state);
  if (hint == nullptr) return;
  finding.why = fmt::format("{}: {}", hint->why, first_line_thrown(message));
  finding.fixes = hint->fixes;
}

}  // namespace ddpscope
