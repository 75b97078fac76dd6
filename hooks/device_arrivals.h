#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/tensor_info.h"

namespace ddpscope {

struct TensorSlot;

/// A gradient that reached a leaf on a device.
struct Arrival {
  TensorSlot* slot = nullptr;  ///< of the leaf
  TensorId leaf = 0;
  bool adds_up = false;  ///< with the gradient that the leaf had before
};

/// Tells which backward brought which gradients. They arrive on threads of the engine, which do not
/// say for whom they run: where several backwards run at once, a gradient belongs to the one that
/// was called where its device is the current one, and to nobody if there are two of those.
/// Thread: one at a time.
class DeviceArrivals {
 public:
  static constexpr std::size_t kMax = 1 << 16;  ///< of one backward on one device

  /// A backward begins that is not inside of another one. `device`: the current one; -1: not known.
  void begin(std::uint64_t thread, int device);
  void add(int device, const Arrival& arrival);

  struct List {
    int device = 0;
    std::vector<Arrival> arrivals;  ///< in their order
  };
  /// The backward of this thread has ended.
  std::vector<List> end(std::uint64_t thread);

 private:
  struct Backward {
    std::uint64_t thread = 0;
    int device = -1;
    std::vector<List> lists;
  };
  Backward* owner_of(int device);

  std::vector<Backward> running_;
};

}  // namespace ddpscope
