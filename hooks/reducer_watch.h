#pragma once

namespace ddpscope {

class Capture;

/// The functions of `c10d::Reducer` that tell which gradients it waits for. Its members are never
/// read: what a version of LibTorch has not under these names makes the source absent.
bool install_reducer_watch() noexcept;

/// Reducers are often built before the first attach: they are seen from the start.
void watch_reducers() noexcept;

/// An outermost backward of this thread has ended.
void tell_unfinished_reducers(Capture& capture);

}  // namespace ddpscope
