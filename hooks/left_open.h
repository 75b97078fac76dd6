#pragma once

namespace ddpscope {

/// An exception that nobody catches unwinds nothing: what would have seen it pass still stands on
/// the stack of this thread. Tells what each of it would have told. For `std::terminate`.
void tell_left_open() noexcept;

/// Of these the outermost operator in a survey, and the outermost backward.
void tell_operator_left_open() noexcept;
void tell_backward_left_open() noexcept;

}  // namespace ddpscope
