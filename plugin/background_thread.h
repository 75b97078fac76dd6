#pragma once

namespace ddpscope {

/// Makes the calling thread one of ours: the program's signals are for its own threads, and its
/// work goes before ours. `name` has at most 15 characters.
void become_background(const char* name) noexcept;

}  // namespace ddpscope
