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

/// Calls `work(i)` for [begin, end). What lies last comes first, as it was read last and may still
/// be in the caches; within a block in order, as the processor fetches what follows.
template <class Work>
void from_the_end(std::int64_t begin, std::int64_t end, const Work& work) {
  constexpr std::int64_t kBlock = 32;
  while (end > begin) {
    const std::int64_t first = end - begin > kBlock ? end - kBlock : begin;
    for (std::int64_t i = first; i < end; ++i) work(i);
    end = first;
  }
}

}  // namespace ddpscope::ops
