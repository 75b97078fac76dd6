#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace ddpscope::ops {

/// Calls `work(begin, end)` for ranges that cover [0, count): on the threads of LibTorch where so
/// many elements are worth them. `work` throws nothing.
void for_ranges(std::int64_t count, std::int64_t elements,
                c10::function_ref<void(std::int64_t, std::int64_t)> work);

/// Whether `for_ranges` would use more than one thread.
bool is_worth_threads(std::int64_t elements);

}  // namespace ddpscope::ops
