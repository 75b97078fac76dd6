#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <ddpscope/ops/clip_grad.h>

#include <cstdint>
#include <vector>

#include "ops/clip/chunk_kernels.h"

namespace ddpscope::clip {

/// A piece of one gradient. A complex element is two values.
struct Chunk {
  std::size_t row = 0;
  std::int64_t begin = 0;  // in elements
  std::int64_t elements = 0;
};

/// kZeros: zeros that nothing holds, as the gradient of `sgn`. They are read and never written.
enum class Form : std::uint8_t { kFlat, kStrided, kSparse, kZeros };

/// What will be written: of parts that are added up later, as the values of one place in a sparse
/// tensor, each may be scaled, but only their sum be clamped.
enum class Change : std::uint8_t { kScale, kClamp };

const char* function_of(Change change);

/// The gradient of one tensor of the list; without elements where there is none.
struct Row {
  const at::Tensor* gradient = nullptr;
  const void* data = nullptr;  // a flat run of the elements, of the gradient itself if kFlat
  std::int64_t elements = 0;
  Kind kind = Kind::kFloat;
  bool is_complex = false;
  Form form = Form::kFlat;

  std::int64_t element_bytes() const {
    const std::int64_t bytes = kind == Kind::kDouble ? 8 : kind == Kind::kFloat ? 4 : 2;
    return is_complex ? 2 * bytes : bytes;
  }
};

/// The gradients of one call that lie on one device. Refers to the tensors of the list, which must
/// outlive it.
class Table {
 public:
  /// One per device, in the order in which the list comes to them; of an empty list one.
  /// @throws c10::Error for a gradient that cannot be changed so.
  static std::vector<Table> of_devices(at::TensorList tensors, ClipInput input, Change change);

  /// One per tensor of the list; of another device it is as one without a gradient.
  const std::vector<Row>& rows() const { return rows_; }
  std::int64_t elements() const { return elements_; }
  std::int64_t defined_count() const { return defined_count_; }
  /// Of all gradients; the CPU where there is none.
  c10::Device device() const { return device_; }
  /// Which is called, for messages.
  const char* function() const { return function_of(change_); }
  /// Where the values of each gradient begin, as ClipFacts tells it.
  std::vector<const void*> starts() const;
  /// Whether two flat gradients have a byte in common, as where one is listed twice.
  bool shares_memory() const;
  /// @throws c10::Error if one is of zeros that nothing holds, which `factor` would change.
  void check_takes(double factor) const;
  /// Of the rows that have elements, in order. Their sizes follow from the list alone.
  std::vector<Chunk> chunks() const;

  /// Calls `write(row, data, values)` with memory that becomes that part of the gradient, for all
  /// of the gradients of the rows that are `wanted`; on several threads. Version counters stay.
  using Wanted = c10::function_ref<bool(std::size_t row)>;
  using Write = c10::function_ref<void(std::size_t row, void* data, std::int64_t values)>;
  void write(Wanted wanted, Write write) const;
  /// The same for the rows that are not flat: one call each, on this thread.
  void write_copied(Wanted wanted, Write write) const;

 private:
  Table(std::size_t rows, Change change, c10::Device device);
  void add(const at::Tensor& gradient, std::size_t i);
  void write_flat(const std::vector<Chunk>& chunks, Write write) const;

  Change change_;
  std::vector<Row> rows_;
  std::vector<at::Tensor> copies_;  // what `data` of the rows that are not flat points into
  std::int64_t elements_ = 0;
  std::int64_t defined_count_ = 0;
  c10::Device device_;
};

}  // namespace ddpscope::clip
