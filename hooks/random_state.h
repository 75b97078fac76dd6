#pragma once

#include <ATen/record_function.h>

namespace ddpscope {

class Capture;

/// Tells what the generator that draws on the host holds before `op` draws from it; once per step,
/// where there are several ranks.
void tell_random_state(Capture& capture, const char* op);

/// An operator of a survey step begins: one that draws between a forward's first part and its
/// backward tells the state, unless it draws on a device or from a generator of the program's own.
void see_random_operator(Capture& capture, const at::RecordFunction& function);

}  // namespace ddpscope
