#pragma once

#include <ATen/core/Tensor.h>
#include <ddpscope/export.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

/// Clipping of gradients by their joint norm or by value. docs/gradient-clipping.md tells where in
/// a training step it belongs and how it differs from torch::nn::utils.
namespace ddpscope {
inline namespace api0 {

class Communicator;
using CommunicatorPtr = std::shared_ptr<Communicator>;

/// What becomes of gradients that hold a NaN or an Inf, or whose norm is one. The norm is finite in
/// spite of them where p is 0 (a count), of an Inf also where p is below 0: nothing throws then.
enum class NonFinite : std::uint8_t {
  kPropagate,   ///< as torch: a NaN makes every gradient NaN, an Inf makes the finite ones 0
  kThrowLater,  ///< the same, and the thread's next clip_grad_norm_ throws before it reads anything
  kThrow,       ///< throws with every gradient untouched
  kSkip,        ///< no factor is applied; `found_inf` is 1
  kZeroTensor,  ///< the gradients that hold one become 0; the norm is that of the others
};

enum class ClipInput : std::uint8_t {
  kParameters,  ///< `grad()` of each tensor
  kGradients,   ///< each tensor itself
};

struct ClipOptions {
  ClipInput input = ClipInput::kParameters;
  double norm_type = 2.0;  ///< p: any real number, +inf or -inf
  double eps = 1e-6;       ///< finite, not negative
  NonFinite on_non_finite = NonFinite::kPropagate;
  /// Float, one element, on the CPU or where the result is: multiplies every gradient first.
  at::Tensor inverse_scale = {};
  /// Gradients stay as they are: who steps multiplies by `coefficient` and `inverse_scale`, or
  /// divides by `grad_scale`, as torch's fused optimizers do. Not with kZeroTensor.
  bool defer = false;
  std::vector<std::int32_t> module_of = {};  ///< module of each tensor from 0 on; empty: no norms
  /// Each rank of this group lists other parts of the gradients: their norm is of all parts. Every
  /// rank has to call, with the same `max_norm` and options but `input` and `module_of`.
  CommunicatorPtr shards = nullptr;
};

/// What one call found. P tensors were listed, i is the position in the list; norms and magnitudes
/// are those after `inverse_scale`. All tensors are where the gradients are, of those on several
/// devices on the first CUDA device of the list; on the CPU where there are none. There they hold
/// their values on return; on a CUDA device they are pending on its current stream, parts of one
/// piece of memory, and reading one on the host waits. With `shards` `total_norm`, `coefficient`,
/// `found_inf` and `grad_scale` are of the group, the others of the tensors that this rank listed.
struct DDPSCOPE_API ClipResult {
  at::Tensor total_norm;    ///< Double, []: before clipping
  at::Tensor coefficient;   ///< Double, []: factor beside `inverse_scale`; in [0, 1] or NaN
  at::Tensor tensor_norms;  ///< Double, [P]; 0 for a gradient that is undefined or empty
  at::Tensor module_norms;  ///< Double, [highest `module_of` + 1]; undefined without `module_of`
  at::Tensor max_abs;       ///< Double, [P]: NaN apart, 0 for a gradient that is undefined or empty
  at::Tensor nan_counts;    ///< Long, [P]; a complex number counts where either part is one
  at::Tensor inf_counts;    ///< Long, [P]; likewise
  /// Long, []: lowest i with a NaN or Inf, -1 if there is none, -2 if other ranks alone have one
  at::Tensor first_bad;
  /// Float, []: 1 if an element as given is NaN or Inf, with kSkip also if the norm is; else 0
  at::Tensor found_inf;
  at::Tensor grad_scale;  ///< Float, []: 1 / (coefficient * inverse_scale), for a deferred factor

  /// Waits for the value.
  double total_norm_value() const;
  /// @throws c10::Error if `total_norm` is not finite, or `found_inf` is 1; the text names the
  /// first
  ///         bad tensor with its counts. Waits for the values.
  void throw_if_non_finite() const;
};

/// Scales gradients in place so that their joint norm is at most `max_norm`.
///
/// total = (sum of |g|^p)^(1/p) over every element, g = gradient * inverse_scale; each becomes
/// g * min(1, max_norm / (total + eps)), where min keeps NaN. With p = 0 the total is the number of
/// gradients that have elements. Sums are Double for every dtype and added in one order: the same
/// list gives the same bits on any number of threads. A gradient without elements counts for
/// nothing; one that is listed twice counts twice and is scaled twice.
///
/// If the factor is exactly 1 and nothing is unscaled, no byte is written. Version counters do not
/// advance, as with torch. With `inverse_scale` and a NaN or Inf in any gradient, gradients are
/// unscaled and not clipped: the step is to be skipped.
///
/// On a CUDA device two launches are queued for each 1,344 tensors, one if nothing can change, and
/// nothing waits but kThrow, which must not be captured in a graph. Each gradient that is not dense
/// takes a copy and a launch more, and sparse ones what coalescing takes. An observer is not told.
/// Of gradients on several devices each measures its own, the sums are joined on one of them, and
/// the factor is copied back; where some are on the CPU, it waits for the factor. Not captured in a
/// graph.
///
/// With `shards` one exchange of three numbers per rank comes between the norm and the change, and
/// a dozen small launches on a device. The total is combined in the order of ranks: the same on
/// each of them. A gradient of which several ranks hold a part counts once per part for p = 0.
///
/// @param tensors   P tensors. Their gradients are on the CPU or on CUDA devices; Half, BFloat16,
///                  Float, Double or complex, of any shape, strided or sparse COO; dtypes and
///                  devices may be mixed. Undefined tensors and gradients are skipped. Empty: norm
///                  0.
/// @param max_norm  Not negative, not NaN; infinity measures and never clips.
/// @throws c10::Error for a wrong `max_norm` or option, an integer gradient, one on a device of
///         another kind, or one whose elements overlap in memory; kThrow: also for a norm that is
///         not finite; `shards`: for ranks that do not agree in their call, and what
///         an exchange throws. Every gradient is then as it was. A rank that throws before the
///         exchange lets the others wait for its next one, of which all ranks throw.
/// Call it after the gradients are reduced over ranks: every rank then gets the same bits. Without
/// `shards` it communicates with no other rank. Thread: any, on different gradients.
/// Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks",
/// ICML 2013.
DDPSCOPE_API ClipResult clip_grad_norm_(at::TensorList tensors, double max_norm,
                                        const ClipOptions& options = {});

/// @throws c10::Error if an earlier clip_grad_norm_ of this thread with `kThrowLater` found a norm
///         that is not finite and nobody has thrown for it; on a device, once it got there. For the
///         last step of a training.
DDPSCOPE_API void throw_if_earlier_non_finite();

struct ValueClipResult {
  at::Tensor nan_counts;  ///< Long, [P], on the device that ClipResult names
  at::Tensor inf_counts;  ///< likewise: before clipping
};

/// Clamps every gradient to [-limit, limit] in place, `limit` rounded to the gradient's dtype. NaN
/// stays NaN and Inf becomes the limit; both are counted. What is within the limit is not written.
/// Version counters do not advance.
///
/// @param tensors  As for clip_grad_norm_, but not complex. A sparse gradient is clamped as if
///                 coalesced, and left so where that changed it.
/// @param limit    Not negative, not NaN.
/// @throws c10::Error as clip_grad_norm_ does, and for a complex gradient. Every gradient is then
///         as it was.
DDPSCOPE_API ValueClipResult clip_grad_value_(at::TensorList tensors, double limit,
                                              ClipInput input = ClipInput::kParameters);

/// Drop-in for the functions of torch::nn::utils: the same arguments, results and errors. The total
/// is summed in Double and rounded once, to the dtype that torch's own total has. `max_norm` and
/// `clip_value` may be odd, as there: 0 zeroes, a negative norm turns the signs.
namespace compat {
DDPSCOPE_API double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                                    double norm_type = 2.0, bool error_if_nonfinite = false);
DDPSCOPE_API double clip_grad_norm_(std::initializer_list<at::Tensor> parameters, double max_norm,
                                    double norm_type = 2.0, bool error_if_nonfinite = false);
DDPSCOPE_API double clip_grad_norm_(at::Tensor parameter, double max_norm, double norm_type = 2.0,
                                    bool error_if_nonfinite = false);
DDPSCOPE_API void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);
DDPSCOPE_API void clip_grad_value_(std::initializer_list<at::Tensor> parameters, double clip_value);
DDPSCOPE_API void clip_grad_value_(at::Tensor parameter, double clip_value);
}  // namespace compat

}  // namespace api0
}  // namespace ddpscope
